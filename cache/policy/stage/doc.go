// Package stage holds what recipes are made of, as pure functions over plain arrays: scores, pooling, reduction over
// query heads, budgets and selection. Rows are laid out [tokens][head_dim], contiguous. Every function is the twin of
// one kernel.
package stage
