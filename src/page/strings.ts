/** Texts of a page, each of them once. */
import { visible, visibleLine } from '../visible.js';

export class Strings {
  readonly all: string[] = [''];
  private readonly known = new Map<string, number>([['', 0]]);

  /** Position of a text of one line. */
  line(text: string): number {
    return this.find(text, visibleLine);
  }

  /** Position of a text of ours with several lines. */
  lines(text: string): number {
    return this.find(text, visible);
  }

  private find(text: string, shown: (text: string) => string): number {
    const known = this.known.get(text);
    if (known !== undefined) return known;
    this.known.set(text, this.all.length);
    return this.all.push(shown(text)) - 1;
  }
}
