// Radix selection by the threads of a workgroup, four bits of the key at a time. Who includes it says what an item's key
// is, key_of(i), and how much it weighs, weight_of(i): 0 where it does not take part.
var<workgroup> bins: array<atomic<u32>, 128>; // 16 for each of 8 digits

// The items above the key, and of those with the key the first ones whose weights add up to ties.
struct Cut {
  key: u32,
  ties: u32,
}

// Floats as integers of the same order; −0 is 0, and no number is below all numbers.
fn ordered(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return 0u;
  }
  if ((bits & 0x7fffffffu) == 0u) {
    return 0x80000000u;
  }
  return select(bits | 0x80000000u, ~bits, (bits & 0x80000000u) != 0u);
}

// The bits of the float that ordered made a key of.
fn unordered(key: u32) -> u32 {
  return select(~key, key & 0x7fffffffu, (key & 0x80000000u) != 0u);
}

// Cuts off the highest items of weight want, or all. Each lane brings its items from … to.
fn cut(lane: u32, begin: u32, end: u32, want: u32) -> Cut {
  for (var b = lane; b < 128u; b += GROUP) {
    atomicStore(&bins[b], 0u);
  }
  workgroupBarrier();
  var key = 0u;
  var left = want;
  for (var digit = 0u; digit < 8u; digit++) {
    let shift = 28u - 4u * digit;
    for (var i = begin; i < end; i++) {
      let k = key_of(i);
      if (digit == 0u || ((k ^ key) >> ((shift + 4u) & 31u)) == 0u) {
        atomicAdd(&bins[16u * digit + ((k >> shift) & 15u)], weight_of(i));
      }
    }
    workgroupBarrier();
    var bin = 15u;
    for (; bin > 0u; bin--) {
      let here = atomicLoad(&bins[16u * digit + bin]);
      if (here >= left) {
        break;
      }
      left -= here;
    }
    key |= bin << shift;
  }
  workgroupBarrier();
  return Cut(key, left);
}
