// Attention by one thread for a head of a row: it writes what it summed.
const LANES: u32 = 1u; // threads that share a head of a row

fn write_row(at: u32, row: u32, lane: u32) {
  lse[row] = top + log(sum);
  for (var i = 0u; i < PAIRS; i++) {
    let out = acc[i] / sum; // a row sees at least itself
    a[at + 2u * i] = out.x;
    a[at + 2u * i + 1u] = out.y;
  }
}
