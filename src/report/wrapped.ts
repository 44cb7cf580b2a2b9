/** Text of pages that are made: wrapped as the other documents are. */

/** Words; spans of code are one. */
const WORDS = /(?:`[^`]*`|[^\s`]|`)+/g;

/** Lines of at most 100 columns; those of a list are indented behind its mark. */
export function wrapped(text: string): string {
  return text
    .split('\n')
    .map((line) => {
      const indent = ' '.repeat(/^(?:- |\d+\. )?/.exec(line)![0].length);
      const out: string[] = [];
      let current = '';
      for (const word of line.match(WORDS) ?? []) {
        if (current !== '' && current.length + 1 + word.length > 100) {
          out.push(current);
          current = indent + word;
        } else current = current === '' ? word : `${current} ${word}`;
      }
      return [...out, current].join('\n');
    })
    .join('\n');
}
