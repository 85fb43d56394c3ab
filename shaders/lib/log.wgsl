// What left the lists in the last steps, for hosts that ask: behind the words of all lists, in the row of a step, for each
// list the least worth that stayed without protection, and then position and worth of up to LOG tokens that left, in any
// order.
const LOG: u32 = 24u; // word of the session buffer: tokens of a list that there is room for; 0: nobody asks
const LOG_STEPS: u32 = 4u;

fn log_at(list: u32) -> u32 {
  let row = (session[STEP] % LOG_STEPS) * session[LISTS] + list;
  return session[LISTS] * LIST + row * (1u + 2u * session[LOG]);
}
