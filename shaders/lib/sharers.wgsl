// The KV heads, from x and below y, whose mean a candidate's score is: all of them where a recipe keeps whole chunks and
// their candidates are the same (ChunkKV, Liu et al., 2025), or its own.
fn sharers(h: u32) -> vec2<u32> {
  if (p.share == 1u && tokens[SAME] == 1u) {
    return vec2<u32>(0u, p.kv_heads);
  }
  return vec2<u32>(h, h + 1u);
}
