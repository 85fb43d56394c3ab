// What never leaves of a list's candidates. The first were of them are stored, and slots know their ranks; the others are
// new rows.
//!include lib/choose.wgsl

fn pinned(position: u32) -> bool {
  for (var i = 0u; i < PIN_COUNT && session[PINS + i] != 0u; i++) { // none is behind the last
    if (session[PINS + i] == position + 1u) {
      return true;
    }
  }
  return false;
}

// Chooses what never leaves of n candidates, new rows among them from position next on: pins, and as far as limit has room
// then, so many of the first and of the last (stage.Pinned). It says how many more may stay.
fn protect(lane: u32, list: u32, n: u32, were: u32, next: u32, slots: u32, limit: u32, first: u32, recent: u32) -> u32 {
  for (var i = begin; i < end; i++) {
    stays[row + i] = select(0u, 1u, i >= were && pinned(next + i - were));
  }
  sync();
  for (var slot = lane; slot < slots && session[PINS] != 0u; slot += GROUP) {
    let rank = ranks[rank_at(list, slot)];
    if (rank != NONE && pinned(arena[position_at(list, slot)])) {
      stays[row + rank] = 1u;
    }
  }
  sync();
  var pins = 0u; // one byte counts those among the first, one those among the last, and one all
  for (var i = begin; i < end; i++) {
    pins += stays[row + i] * (0x10000u + select(0u, 1u, i < first) + select(0u, 0x100u, i + recent >= n));
  }
  var at = begin - (before(lane, pins) >> 16u); // place among those that are not pinned
  let others = n - (all_lanes >> 16u);
  let room = limit - min(limit, all_lanes >> 16u);
  var newest = min(recent - ((all_lanes >> 8u) & 255u), room);
  let oldest = min(first - (all_lanes & 255u), room - min(newest, 1u));
  newest = min(newest, room - oldest);
  for (var i = begin; i < end; i++) {
    if (stays[row + i] == 0u) {
      stays[row + i] = select(0u, 1u, at < oldest || at + newest >= others);
      at++;
    }
  }
  return room - oldest - newest;
}
