// A head reads the slots of the pages that quest.wgsl marked for it: marks [heads][⌈CAPACITY/BOUND⌉].
@group(0) @binding(5) var<storage, read> marks: array<u32>;

fn reads(head: u32, slot: u32) -> bool {
  return marks[head * ((session[CAPACITY] + p.bound - 1u) / p.bound) + slot / p.bound] != 0u;
}
