// A head reads every slot.
fn reads(head: u32, slot: u32) -> bool {
  return true;
}
