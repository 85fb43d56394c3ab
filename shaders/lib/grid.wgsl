// Grids of more than 65,535 workgroups go on in y. The number of a thread, counted over both.
const GROUP: u32 = 64u;

fn thread(id: vec3<u32>, groups: vec3<u32>) -> u32 {
  return id.y * groups.x * GROUP + id.x;
}
