// Choosing tokens of one row of candidates: stays[row + i] is 0 until candidate i is chosen. Each lane has a contiguous
// part of them, so that its own need no barrier and ties go to the lower position.
//!include lib/before.wgsl
//!include lib/radix.wgsl
var<private> row: u32;
var<private> begin: u32;
var<private> end: u32;
var<private> edge: u32; // key of the last that take chose

// Makes writes to storage visible to the workgroup.
fn sync() {
  storageBarrier();
  workgroupBarrier();
}

// Gives the lane its part of n candidates, in units of unit tokens.
fn own(lane: u32, n: u32, unit: u32) {
  let part = ((n + unit - 1u) / unit + GROUP - 1u) / GROUP * unit;
  begin = min(lane * part, n);
  end = min(begin + part, n);
}

// Chooses the want highest candidates more, of equals the lower position.
fn take(lane: u32, want: u32) {
  let c = cut(lane, begin, end, want);
  edge = c.key;
  var ties = 0u;
  for (var i = begin; i < end; i++) {
    ties += select(0u, weight_of(i), key_of(i) == c.key);
  }
  var tie = before(lane, ties);
  for (var i = begin; i < end; i++) {
    if (weight_of(i) == 0u) {
      continue;
    }
    let key = key_of(i);
    if (key > c.key || (key == c.key && tie < c.ties)) {
      stays[row + i] = 1u;
    }
    tie += select(0u, 1u, key == c.key);
  }
}

// Numbers the chosen ones in the order of positions, from 1 on, and counts them.
fn number(lane: u32) -> u32 {
  var chosen = 0u;
  for (var i = begin; i < end; i++) {
    chosen += stays[row + i];
  }
  var at = before(lane, chosen);
  for (var i = begin; i < end; i++) {
    if (stays[row + i] != 0u) {
      at++;
      stays[row + i] = at;
    }
  }
  return all_lanes;
}
