// Package draft is a leaf that guesses the next tokens of a sequence without a second model: from what followed the same words
// earlier in the sequence itself, and in earlier texts of the same tenant. The engine checks every guess, so a wrong one costs time
// and never changes an answer.
package draft
