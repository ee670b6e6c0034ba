// Package prune is a leaf that makes a model file smaller by leaving out attention heads and feed-forward channels.
//
// It works on GGUF files of the Llama family (llama, which includes Mistral and SmolLM, qwen2, qwen3, gemma3). Every layer loses as
// many heads and channels as every other, so that the file stays a plain model of its architecture which any engine runs: of the
// attention, whole groups of query heads with the key-value head they share; of the feed-forward part, a channel with its rows of
// gate and up and its column of down.
//
// What goes is what matters least in its layer. With an [Importance] recorded while the model read a calibration text, that is the
// energy which a head or channel adds to the residual stream: the mean square of its activation times the squared norm of the
// columns that it is multiplied by. Without one the weights themselves have to do: the value rows, scaled by the norm before them,
// stand for the activation of a head, and the squared cosine between the rows of gate and up for that of a channel. That is a makeshift:
// measure what it costs, which `sluice models prune` does, and calibrate.
//
// Rows keep their format. Columns of a block format can only be copied where whole blocks remain, which is the case for heads whose
// size is a multiple of 32; else they are requantised from their exact values, in Q8_0, or in F16 when the new width is not a
// multiple of 32. The [Report] says which, what share of the importance remains, and, when told how to measure, what it cost.
package prune
