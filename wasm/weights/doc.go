// Package weights reads model files: GGUF containers, manifests of hashed parts, and the store that fetches a model,
// verifies it and keeps it for the next visit.
//
// Every file is hostile until checked. A count, size or offset is compared with the bytes that are really there before
// anything is allocated for it, and a refusal names the field.
package weights
