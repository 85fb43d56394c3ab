// Package cache decides where every key and value of a model lives, and counts every byte that is asked for.
//
// The whole KV cache is one arena whose size is the memory cap. One layer's one KV head is a [List] of slots; slot i
// holds one token: its key is lane i mod P_k of key page i div P_k, its value lane i mod P_v of value page i div P_v,
// its position word lane i mod 8 of position page i div 8. A lane of a key or value page is head_dim numbers in a row.
//
// Tokens may leave: their slots are dead until other tokens take them. What recipes keep beside keys and values lies in
// pages of the arena too (see [Geometry]).
//
// The package never touches tensor bytes: it hands out page tables and slots, a backend moves the data.
package cache
