// Package eval measures what a precision plan costs: perplexity of a text, and, against a baseline plan or another model file, the
// Kullback-Leibler divergence of the distributions of the next token, how often the likeliest token stays the same, and how far the
// probability of the text's own token moves; for encoders the cosine of the vectors.
//
// Texts are cut into windows. Each token is scored once, in the window that gives it most context. Baseline and measured model run side
// by side on the same tokens, a chunk at a time, so that memory holds the scores of one chunk whatever the length of the text. Sums over
// the vocabulary and over tokens are float64.
//
// Every figure comes with a 95 % confidence interval: percentiles of a bootstrap over blocks of neighbouring tokens, drawn with a fixed
// seed, or for shares the Wilson score interval, widened by how much blocks vary beyond chance. The interval says how much the figure
// would move on another text of the same kind; two runs on the same text give the same figures.
package eval
