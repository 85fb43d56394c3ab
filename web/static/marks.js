// Writes what the cache keeps of the tokens of a text: two letters a token, why it is kept and in how many eighths of the
// lists (app/ui). One call a frame instead of one a token. Other elements are marked in the same way, as a list of them.
globalThis.kvlensMarks = (text, marks) => {
  let i = 0;
  for (const token of text.children ?? text) {
    const mark = marks.slice(i, i += 2);
    if (token.dataset.k !== mark) token.dataset.k = mark;
  }
};
