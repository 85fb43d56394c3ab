// Queries of the rows at work.
@group(0) @binding(5) var<storage, read> q: array<f32>; // [chunk rows][heads·dim]
