// Package policy holds every recipe that decides which tokens of the KV cache stay: a registry with schemas, one file a
// method, the stages that they are made of, and a run of those stages over plain arrays. It knows no model and no memory.
package policy
