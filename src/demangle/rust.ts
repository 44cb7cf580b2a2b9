/**
 * Names of Rust functions out of symbols: the scheme of today (v0, RFC 2603) and the one before it,
 * which borrows the form of C++. Written without hashes, as `rustfilt` writes them.
 */

/** Deeper ones are damage, or an attack on the stack. */
const MOST_DEPTH = 200;
const MOST_LETTERS = 1 << 16;

const BASIC: Readonly<Record<string, string>> = {
  a: 'i8',
  b: 'bool',
  c: 'char',
  d: 'f64',
  e: 'str',
  f: 'f32',
  h: 'u8',
  i: 'isize',
  j: 'usize',
  l: 'i32',
  m: 'u32',
  n: 'i128',
  o: 'u128',
  p: '_',
  s: 'i16',
  t: 'u16',
  u: '()',
  v: '...',
  x: 'i64',
  y: 'u64',
  z: '!',
};

/** Thrown inside only. */
class NotServed extends Error {}

class Parser {
  private at = 0;
  private out = '';
  private silent = 0;
  private depth = 0;
  private binders = 0;

  constructor(private readonly source: string) {}

  whole(): string {
    // A version other than 0 would begin with a digit.
    if (!/^[A-Z]/.test(this.source)) this.fail();
    this.path(true);
    if (this.at < this.source.length) {
      // The crate that made the instance.
      this.silently(() => {
        this.path(false);
      });
    }
    if (this.at < this.source.length) this.fail();
    return this.out;
  }

  private fail(): never {
    throw new NotServed();
  }

  private print(text: string): void {
    if (this.silent > 0) return;
    this.out += text;
    if (this.out.length > MOST_LETTERS) this.fail();
  }

  private silently(work: () => void): void {
    this.silent++;
    work();
    this.silent--;
  }

  private next(): string {
    const letter = this.source[this.at++];
    if (letter === undefined) this.fail();
    return letter;
  }

  private eat(letter: string): boolean {
    if (this.source[this.at] !== letter) return false;
    this.at++;
    return true;
  }

  private deeper(work: () => void): void {
    if (++this.depth > MOST_DEPTH) this.fail();
    work();
    this.depth--;
  }

  /** `_` is 0, `0_` is 1, …; digits, then small, then capital letters. */
  private base62(): number {
    if (this.eat('_')) return 0;
    let value = 0;
    for (;;) {
      const letter = this.next();
      if (letter === '_') return value + 1;
      const digit = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'.indexOf(letter);
      if (digit < 0) this.fail();
      value = value * 62 + digit;
      if (value > Number.MAX_SAFE_INTEGER) value = Number.MAX_SAFE_INTEGER;
    }
  }

  private optional62(letter: string): number {
    return this.eat(letter) ? this.base62() + 1 : 0;
  }

  private identifier(): string {
    const isPuny = this.eat('u');
    const [digits] = /^(?:0|[1-9]\d{0,5})/.exec(this.source.slice(this.at, this.at + 6)) ?? [];
    if (digits === undefined) this.fail();
    this.at += digits.length;
    this.eat('_');
    const name = this.source.slice(this.at, this.at + Number(digits));
    if (name.length < Number(digits)) this.fail();
    this.at += name.length;
    return isPuny ? (unpuny(name) ?? `punycode{${name.replace(/_(?=[^_]*$)/, '-')}}`) : name;
  }

  private backref(work: () => void): void {
    const from = this.at - 1;
    const to = this.base62();
    if (to >= from) this.fail();
    // What is not printed was parsed where it stands.
    if (this.silent > 0) return;
    const here = this.at;
    this.at = to;
    this.deeper(work);
    this.at = here;
  }

  private path(inValue: boolean): void {
    this.deeper(() => {
      const tag = this.next();
      if (tag === 'C') {
        this.optional62('s');
        this.print(this.identifier());
      } else if (tag === 'N') this.nested(inValue);
      else if (tag === 'M' || tag === 'X' || tag === 'Y') this.implementation(tag);
      else if (tag === 'I') {
        this.path(inValue);
        this.print(inValue ? '::<' : '<');
        this.list(() => {
          this.genericArgument();
        });
        this.print('>');
      } else if (tag === 'B') {
        this.backref(() => {
          this.path(inValue);
        });
      } else this.fail();
    });
  }

  private nested(inValue: boolean): void {
    const space = this.next();
    if (!/[A-Za-z]/.test(space)) this.fail();
    this.path(inValue);
    const index = this.optional62('s');
    const name = this.identifier();
    if (/[A-Z]/.test(space)) {
      const kind = space === 'C' ? 'closure' : space === 'S' ? 'shim' : space;
      this.print(`::{${kind}${name === '' ? '' : `:${name}`}#${index}}`);
    } else if (name !== '') this.print(`::${name}`);
  }

  private implementation(tag: string): void {
    if (tag !== 'Y') {
      this.optional62('s');
      this.silently(() => {
        this.path(false);
      });
    }
    this.print('<');
    this.type();
    if (tag !== 'M') {
      this.print(' as ');
      this.path(false);
    }
    this.print('>');
  }

  /** Things up to `E`. @returns how many */
  private list(each: () => void, separator = ', '): number {
    let count = 0;
    while (!this.eat('E')) {
      if (count++ > 0) this.print(separator);
      each();
    }
    return count;
  }

  private genericArgument(): void {
    if (this.eat('L')) this.lifetime(this.base62());
    else if (this.eat('K')) this.constant(false);
    else this.type();
  }

  private lifetime(index: number): void {
    this.print("'");
    if (index === 0) {
      this.print('_');
      return;
    }
    const depth = this.binders - index;
    if (depth < 0) this.fail();
    this.print(depth < 26 ? String.fromCharCode(0x61 + depth) : `_${depth}`);
  }

  private binder(work: () => void): void {
    const count = this.optional62('G');
    if (count > 1000) this.fail();
    if (count > 0) this.print('for<');
    for (let i = 0; i < count; i++) {
      if (i > 0) this.print(', ');
      this.binders++;
      this.lifetime(1);
    }
    if (count > 0) this.print('> ');
    work();
    this.binders -= count;
  }

  private type(): void {
    this.deeper(() => {
      const tag = this.next();
      const basic = BASIC[tag];
      if (basic !== undefined) this.print(basic);
      else if (/[RQPO]/.test(tag)) this.pointer(tag);
      else if (tag === 'A' || tag === 'S') {
        this.print('[');
        this.type();
        if (tag === 'A') {
          this.print('; ');
          this.constant(true);
        }
        this.print(']');
      } else if (tag === 'T') {
        this.print('(');
        const count = this.list(() => {
          this.type();
        });
        this.print(count === 1 ? ',)' : ')');
      } else if (tag === 'F') {
        this.binder(() => {
          this.functionType();
        });
      } else if (tag === 'D') this.dynamic();
      else if (tag === 'B') {
        this.backref(() => {
          this.type();
        });
      } else {
        this.at--;
        this.path(false);
      }
    });
  }

  private pointer(tag: string): void {
    this.print(tag === 'P' ? '*const ' : tag === 'O' ? '*mut ' : '&');
    if (tag === 'R' || tag === 'Q') {
      const lifetime = this.eat('L') ? this.base62() : 0;
      if (lifetime !== 0) {
        this.lifetime(lifetime);
        this.print(' ');
      }
      if (tag === 'Q') this.print('mut ');
    }
    this.type();
  }

  private functionType(): void {
    if (this.eat('U')) this.print('unsafe ');
    if (this.eat('K')) {
      const abi = this.eat('C') ? 'C' : this.identifier().replaceAll('_', '-');
      this.print(`extern "${abi}" `);
    }
    this.print('fn(');
    this.list(() => {
      this.type();
    });
    this.print(')');
    if (this.eat('u')) return;
    this.print(' -> ');
    this.type();
  }

  private dynamic(): void {
    this.print('dyn ');
    this.binder(() => {
      this.list(() => {
        this.dynamicTrait();
      }, ' + ');
    });
    if (!this.eat('L')) this.fail();
    const lifetime = this.base62();
    if (lifetime === 0) return;
    this.print(' + ');
    this.lifetime(lifetime);
  }

  private dynamicTrait(): void {
    let isOpen = this.openPath();
    while (this.eat('p')) {
      this.print(isOpen ? ', ' : '<');
      isOpen = true;
      this.print(`${this.identifier()} = `);
      this.type();
    }
    if (isOpen) this.print('>');
  }

  /** A path whose generic arguments, if it has some, are left open for more. */
  private openPath(): boolean {
    if (this.eat('B')) {
      let isOpen = false;
      this.backref(() => {
        isOpen = this.openPath();
      });
      return isOpen;
    }
    if (!this.eat('I')) {
      this.path(false);
      return false;
    }
    this.path(false);
    this.print('<');
    this.list(() => {
      this.genericArgument();
    });
    return true;
  }

  private hex(): string {
    const [digits] = /^[0-9a-f]*_/.exec(this.source.slice(this.at)) ?? [];
    if (digits === undefined) this.fail();
    this.at += digits.length;
    return digits.slice(0, -1);
  }

  private constant(inValue: boolean): void {
    this.deeper(() => {
      const tag = this.next();
      if (/[hjmoty]/.test(tag)) this.print(this.integer());
      else if (/[ailnsx]/.test(tag)) this.print((this.eat('n') ? '-' : '') + this.integer());
      else if (tag === 'b') {
        const value = this.hex();
        if (value !== '0' && value !== '1') this.fail();
        this.print(value === '1' ? 'true' : 'false');
      } else if (tag === 'c') {
        const code = parseInt(this.hex(), 16);
        if (!(code <= 0x10ffff) || (code >= 0xd800 && code < 0xe000)) this.fail();
        this.print(quoted(String.fromCodePoint(code), "'"));
      } else if (tag === 'p') this.print('_');
      else if (tag === 'B') {
        this.backref(() => {
          this.constant(inValue);
        });
      } else this.structure(tag, inValue);
    });
  }

  private integer(): string {
    const digits = this.hex().replace(/^0+(?=.)/, '');
    return digits.length > 16 ? `0x${digits}` : BigInt(`0x${digits || '0'}`).toString();
  }

  /** Strings, references and values with parts: in braces, unless they stand in such a value. */
  private structure(tag: string, inValue: boolean): void {
    const brace = (work: () => void): void => {
      if (!inValue) this.print('{');
      work();
      if (!inValue) this.print('}');
    };
    if (tag === 'R' && this.eat('e')) {
      brace(() => {
        this.string();
      });
    } else if (tag === 'R' || tag === 'Q') {
      brace(() => {
        this.print(tag === 'R' ? '&' : '&mut ');
        this.constant(true);
      });
    } else if (tag === 'e') {
      brace(() => {
        this.print('*');
        this.string();
      });
    } else if (tag === 'A' || tag === 'T') {
      brace(() => {
        this.print(tag === 'A' ? '[' : '(');
        const count = this.list(() => {
          this.constant(true);
        });
        this.print(tag === 'A' ? ']' : count === 1 ? ',)' : ')');
      });
    } else if (tag === 'V')
      brace(() => {
        this.variant();
      });
    else this.fail();
  }

  private string(): void {
    const bytes = Buffer.from(this.hex(), 'hex');
    this.print(quoted(new TextDecoder().decode(bytes), '"'));
  }

  private variant(): void {
    this.path(true);
    const kind = this.next();
    if (kind === 'U') return;
    if (kind !== 'T' && kind !== 'S') this.fail();
    this.print(kind === 'T' ? '(' : ' { ');
    this.list(() => {
      if (kind === 'S') {
        this.optional62('s');
        this.print(`${this.identifier()}: `);
      }
      this.constant(true);
    });
    this.print(kind === 'T' ? ')' : ' }');
  }
}

function quoted(text: string, mark: string): string {
  const escapes: Readonly<Record<string, string>> = {
    '\n': '\\n',
    '\r': '\\r',
    '\t': '\\t',
    '\\': '\\\\',
    '\0': '\\0',
  };
  const inner = [...text].map((each) => escapes[each] ?? (each === mark ? `\\${each}` : each));
  return mark + inner.join('') + mark;
}

/** Punycode (RFC 3492) with `_` for the hyphen; null for what is none. */
function unpuny(text: string): string | null {
  const cut = text.lastIndexOf('_');
  const out = cut < 0 ? [] : [...text.slice(0, cut)];
  const digits = text.slice(cut + 1);
  let [code, at, bias] = [0x80, 0, 72];
  for (let i = 0, isFirst = true; i < digits.length; isFirst = false) {
    const before = at;
    for (let weight = 1, k = 36; ; k += 36) {
      const digit = 'abcdefghijklmnopqrstuvwxyz0123456789'.indexOf(digits[i++] ?? ' ');
      if (digit < 0) return null;
      at += digit * weight;
      const threshold = Math.min(26, Math.max(1, k - bias));
      if (digit < threshold) break;
      weight *= 36 - threshold;
      if (weight > 2 ** 31) return null;
    }
    const count = out.length + 1;
    let delta = Math.floor((at - before) / (isFirst ? 700 : 2));
    delta += Math.floor(delta / count);
    let k = 0;
    for (; delta > 455; k += 36) delta = Math.floor(delta / 35);
    bias = k + Math.floor((36 * delta) / (delta + 38));
    code += Math.floor(at / count);
    at %= count;
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return null;
    out.splice(at++, 0, String.fromCodePoint(code));
  }
  return out.join('');
}

const ESCAPES: Readonly<Record<string, string>> = {
  SP: '@',
  BP: '*',
  RF: '&',
  LT: '<',
  GT: '>',
  LP: '(',
  RP: ')',
  C: ',',
};

/** One part of a name of the old scheme. */
function legacyPart(part: string): string {
  return part
    .replace(/^_(?=\$)/, '')
    .replace(/\$(?:(SP|BP|RF|LT|GT|LP|RP|C)|u([0-9a-f]{1,6}))\$|\.\.|\./g, (all, name?: string, code?: string) => {
      if (name !== undefined) return ESCAPES[name]!;
      if (code === undefined) return all === '..' ? '::' : '.';
      const point = parseInt(code, 16);
      return point > 0x10ffff || point < 0x20 || (point >= 0xd800 && point < 0xe000)
        ? all
        : String.fromCodePoint(point);
    });
}

/** A name of the old scheme; null unless it ends with a hash, as all of them do. */
function demangleLegacy(symbol: string): string | null {
  if (!symbol.startsWith('_ZN') || !/17h[0-9a-f]{16}E$/.test(symbol)) return null;
  const parts: string[] = [];
  let at = 3;
  while (symbol[at] !== 'E') {
    const [digits] = /^[1-9]\d{0,5}/.exec(symbol.slice(at, at + 6)) ?? [];
    if (digits === undefined) return null;
    const start = at + digits.length;
    at = start + Number(digits);
    if (at >= symbol.length) return null;
    parts.push(symbol.slice(start, at));
  }
  if (at !== symbol.length - 1 || parts.length < 2) return null;
  return parts.slice(0, -1).map(legacyPart).join('::');
}

/** The path that a symbol stands for, without hashes; null for what is no name of Rust. */
export function demangleRust(symbol: string): string | null {
  // What LLVM appends says nothing; other suffixes are those of clones.
  const plain = symbol.replace(/\.llvm\.[0-9A-F@]+$/, '');
  const dot = /^_R/.test(plain) ? plain.indexOf('.') : plain.search(/(?<=E)\.(?!.*17h)/);
  const suffix = dot < 0 ? '' : plain.slice(dot);
  const name = dot < 0 ? plain : plain.slice(0, dot);
  if (!name.startsWith('_R')) {
    const legacy = demangleLegacy(name);
    return legacy === null ? null : legacy + suffix;
  }
  if (/[^A-Za-z0-9_]/.test(name)) return null;
  try {
    return new Parser(name.slice(2)).whole() + suffix;
  } catch (error) {
    if (error instanceof NotServed) return null;
    throw error;
  }
}
