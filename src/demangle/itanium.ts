/**
 * Names of C++ functions and objects out of symbols, by the Itanium C++ ABI (External
 * Names), written as `c++filt` writes them. Names are parsed to a tree, since a declaration has
 * parts on both sides of its name; `print.ts` writes it.
 *
 * What is not served (modules, requires clauses, rare expressions) gives null: a symbol is better
 * shown as it is than wrongly.
 */
import { leftAndRight, type Node, printNode } from './print.js';

/** Deeper ones are damage, or an attack on the stack. */
const MOST_DEPTH = 200;

const BUILTIN: Readonly<Record<string, string>> = {
  v: 'void',
  w: 'wchar_t',
  b: 'bool',
  c: 'char',
  a: 'signed char',
  h: 'unsigned char',
  s: 'short',
  t: 'unsigned short',
  i: 'int',
  j: 'unsigned int',
  l: 'long',
  m: 'unsigned long',
  x: 'long long',
  y: 'unsigned long long',
  n: '__int128',
  o: 'unsigned __int128',
  f: 'float',
  d: 'double',
  e: 'long double',
  g: '__float128',
  z: '...',
};

const BUILTIN_D: Readonly<Record<string, string>> = {
  a: 'auto',
  c: 'decltype(auto)',
  d: 'decimal64',
  e: 'decimal128',
  f: 'decimal32',
  h: 'half',
  i: 'char32_t',
  n: 'decltype(nullptr)',
  s: 'char16_t',
  u: 'char8_t',
};

/** Operators: text and operands. */
const OPERATORS: Readonly<Record<string, readonly [text: string, operands: number]>> = {
  aN: ['&=', 2],
  aS: ['=', 2],
  aa: ['&&', 2],
  ad: ['&', 1],
  an: ['&', 2],
  aw: ['co_await ', 1],
  cl: ['()', 2],
  cm: [',', 2],
  co: ['~', 1],
  dV: ['/=', 2],
  da: ['delete[]', 1],
  de: ['*', 1],
  dl: ['delete', 1],
  dv: ['/', 2],
  eO: ['^=', 2],
  eo: ['^', 2],
  eq: ['==', 2],
  ge: ['>=', 2],
  gt: ['>', 2],
  ix: ['[]', 2],
  lS: ['<<=', 2],
  le: ['<=', 2],
  ls: ['<<', 2],
  lt: ['<', 2],
  mI: ['-=', 2],
  mL: ['*=', 2],
  mi: ['-', 2],
  ml: ['*', 2],
  mm: ['--', 1],
  na: ['new[]', 3],
  ne: ['!=', 2],
  ng: ['-', 1],
  nt: ['!', 1],
  nw: ['new', 3],
  oR: ['|=', 2],
  oo: ['||', 2],
  or: ['|', 2],
  pL: ['+=', 2],
  pl: ['+', 2],
  pm: ['->*', 2],
  pp: ['++', 1],
  ps: ['+', 1],
  pt: ['->', 2],
  qu: ['?', 3],
  rM: ['%=', 2],
  rS: ['>>=', 2],
  rm: ['%', 2],
  rs: ['>>', 2],
  ss: ['<=>', 2],
};

const CHAR_TRAITS = 'std::char_traits<char>';
/** Substitutions that the ABI abbreviates, in full, and the name of their constructors. */
const STANDARD: Readonly<Record<string, readonly [text: string, base: string]>> = {
  a: ['std::allocator', 'allocator'],
  b: ['std::basic_string', 'basic_string'],
  s: [`std::basic_string<char, ${CHAR_TRAITS}, std::allocator<char> >`, 'basic_string'],
  i: [`std::basic_istream<char, ${CHAR_TRAITS} >`, 'basic_istream'],
  o: [`std::basic_ostream<char, ${CHAR_TRAITS} >`, 'basic_ostream'],
  d: [`std::basic_iostream<char, ${CHAR_TRAITS} >`, 'basic_iostream'],
};

const SPECIAL_T: Readonly<Record<string, string>> = {
  V: 'vtable for ',
  T: 'VTT for ',
  I: 'typeinfo for ',
  S: 'typeinfo name for ',
};

const LITERAL_SUFFIX: Readonly<Record<string, string>> = { i: '', j: 'u', l: 'l', m: 'ul', x: 'll', y: 'ull' };

/** What a name says about the function that has it. */
interface Name {
  readonly node: Node;
  /** ` const`, ` volatile`, ` &`, ` &&` of a member function. */
  readonly qualifiers: string;
  readonly isTemplate: boolean;
  /** Constructors, destructors and conversions have no return type. */
  readonly isPlain: boolean;
}

/** What is read again because its template parameters are others. */
const MOST_AGAIN = 500;

/** A substitution that names template parameters. */
interface Dependent {
  /** Where it stands. */
  readonly start: number;
  /** A parameter alone, though template arguments follow; or a whole type. */
  readonly what: 'T' | 'type';
  readonly params: readonly Node[];
  readonly inLambda: boolean;
}

/** Thrown inside only. */
class NotServed extends Error {}

const text = (s: string): Node => ({ k: 'text', s });

class Parser {
  private at = 0;
  private depth = 0;
  private readonly substitutions: Node[] = [];
  /** Substitutions that name template parameters: where they are named decides what those are. */
  private readonly dependent = new Map<number, Dependent>();
  private mentions = 0;
  private readAgain = 0;
  private isConversion = false;
  private params: Node[] = [];
  private lastName = '';
  private inLambda = false;
  /** Of the unqualified name that was read last. */
  private plain = true;

  constructor(private readonly source: string) {}

  whole(): Node {
    this.expect('_Z');
    const node = this.encoding(true);
    if (this.at !== this.source.length) this.fail();
    return node;
  }

  private fail(): never {
    throw new NotServed();
  }

  private peek(ahead = 0): string {
    return this.source[this.at + ahead] ?? '';
  }

  private eat(word: string): boolean {
    if (!this.source.startsWith(word, this.at)) return false;
    this.at += word.length;
    return true;
  }

  private expect(word: string): void {
    if (!this.eat(word)) this.fail();
  }

  private deeper<T>(work: () => T): T {
    if (++this.depth > MOST_DEPTH) this.fail();
    const result = work();
    this.depth--;
    return result;
  }

  private number(): number {
    const [digits] = /^\d+/.exec(this.source.slice(this.at, this.at + 10)) ?? [];
    if (digits === undefined) this.fail();
    this.at += digits.length;
    return Number(digits);
  }

  /** `_` is 0, `0_` is 1, in base 36 with capital letters or in decimal. */
  private sequence(base: 36 | 10): number {
    if (this.eat('_')) return 0;
    const pattern = base === 36 ? /^[0-9A-Z]{1,6}/ : /^\d{1,6}/;
    const [digits] = pattern.exec(this.source.slice(this.at, this.at + 6)) ?? [];
    if (digits === undefined) this.fail();
    this.at += digits.length;
    this.expect('_');
    return parseInt(digits, base) + 1;
  }

  // --------------------------------------------------------------------------------- encodings

  private encoding(isTop: boolean): Node {
    return this.deeper(() => {
      const outer = this.params;
      this.params = [];
      const node = this.encodingInside(isTop);
      this.params = outer;
      return node;
    });
  }

  private encodingInside(isTop: boolean): Node {
    if (this.peek() === 'T' || (this.peek() === 'G' && /[VRTAI]/.test(this.peek(1)))) return this.special();
    const { node, qualifiers, isTemplate, isPlain } = this.name(true);
    if (this.at >= this.source.length || this.peek() === 'E' || this.peek() === '.') return node;
    const returned = isTemplate && isPlain ? this.type() : null;
    const params = this.parameters();
    return { k: 'encoding', name: node, ret: isTop ? returned : null, params, q: qualifiers };
  }

  /** Types up to the end of a function; `v` alone is none. */
  private parameters(): Node[] {
    const found: Node[] = [];
    while (this.at < this.source.length && !/[E.]/.test(this.peek())) {
      if (/^[RO]E/.test(this.source.slice(this.at, this.at + 2))) break;
      found.push(this.type());
    }
    if (found.length === 0) this.fail();
    return found.length === 1 && found[0]!.k === 'text' && found[0]!.s === 'void' ? [] : found;
  }

  private special(): Node {
    if (this.eat('G')) {
      if (this.eat('V')) return { k: 'seq', parts: ['guard variable for ', this.name(false).node] };
      if (this.eat('Tt')) return { k: 'seq', parts: ['transaction clone for ', this.encoding(false)] };
      if (this.eat('Tn')) return { k: 'seq', parts: ['non-transaction clone for ', this.encoding(false)] };
      if (this.eat('A')) return { k: 'seq', parts: ['hidden alias for ', this.encoding(false)] };
      this.expect('R');
      const { node } = this.name(false);
      const index = this.peek() === '' ? 0 : this.sequence(36);
      return { k: 'seq', parts: [`reference temporary #${index} for `, node] };
    }
    this.expect('T');
    const letter = this.peek();
    const simple = SPECIAL_T[letter];
    this.at++;
    if (simple !== undefined) return { k: 'seq', parts: [simple, this.type()] };
    if (letter === 'W') return { k: 'seq', parts: ['TLS wrapper function for ', this.name(false).node] };
    if (letter === 'H') return { k: 'seq', parts: ['TLS init function for ', this.name(false).node] };
    if (letter === 'A') return { k: 'seq', parts: ['template parameter object for ', this.templateArgument()] };
    if (letter === 'C') {
      const derived = this.type();
      this.number();
      this.expect('_');
      return { k: 'seq', parts: ['construction vtable for ', this.type(), '-in-', derived] };
    }
    if (letter === 'c') {
      this.callOffset();
      this.callOffset();
      return { k: 'seq', parts: ['covariant return thunk to ', this.encoding(false)] };
    }
    if (letter !== 'h' && letter !== 'v') this.fail();
    this.at--;
    this.callOffset();
    const what = letter === 'h' ? 'non-virtual thunk to ' : 'virtual thunk to ';
    return { k: 'seq', parts: [what, this.encoding(false)] };
  }

  private callOffset(): void {
    const [found] = /^(?:hn?\d+_|vn?\d+_n?\d+_)/.exec(this.source.slice(this.at, this.at + 60)) ?? [];
    if (found === undefined) this.fail();
    this.at += found.length;
  }

  // -------------------------------------------------------------------------------------- names

  /** @param isTagged  its template arguments are what `T_` means behind it */
  private name(isTagged: boolean): Name {
    this.plain = true;
    if (this.peek() === 'N') return this.nested(isTagged);
    if (this.peek() === 'Z') return this.local(isTagged);
    let node: Node;
    if (this.peek() === 'S' && this.peek(1) !== 't') {
      node = this.substitution();
      if (this.peek() !== 'I') this.fail();
    } else {
      const scope = this.eat('St') ? text('std') : null;
      const own = this.unqualified(scope);
      node = scope === null ? own : { k: 'qual', scope, name: own };
      if (this.peek() === 'I') this.substitutions.push(node);
    }
    const isPlain = this.plain;
    const isTemplate = this.peek() === 'I';
    if (isTemplate) node = { k: 'template', base: node, args: this.templateArguments(isTagged) };
    return { node, qualifiers: '', isTemplate, isPlain };
  }

  private nested(isTagged: boolean): Name {
    this.expect('N');
    let qualifiers = this.qualifiers();
    if (this.peek() === 'O' || this.peek() === 'R') qualifiers += this.eat('R') ? ' &' : (this.at++, ' &&');
    let node: Node | null = null;
    let isTemplate = false;
    let isPlain = true;
    while (!this.eat('E')) {
      isTemplate = false;
      if (this.eat('M')) continue;
      const letter = this.peek();
      if (letter === 'T') {
        const start = this.at;
        node = this.templateParam();
        this.note(start, 'T');
      } else if (letter === 'I') {
        if (node === null) this.fail();
        node = { k: 'template', base: node, args: this.templateArguments(isTagged) };
        isTemplate = true;
      } else if (letter === 'D' && /[tT]/.test(this.peek(1))) node = this.decltype();
      else if (letter === 'S' && this.peek(1) !== 't') {
        node = this.substitution();
        continue;
      } else {
        if (this.eat('St')) node = text('std');
        const own = this.unqualified(node);
        isPlain = this.plain;
        node = node === null ? own : { k: 'qual', scope: node, name: own };
      }
      this.substitutions.push(node);
    }
    if (node === null) this.fail();
    // The whole is added by who asked for a type.
    if (this.substitutions.at(-1) === node) this.substitutions.pop();
    return { node, qualifiers, isTemplate, isPlain };
  }

  private local(isTagged: boolean): Name {
    this.expect('Z');
    const holder = this.encoding(false);
    this.expect('E');
    if (this.eat('s')) {
      this.discriminator();
      return {
        node: { k: 'qual', scope: holder, name: text('string literal') },
        qualifiers: '',
        isTemplate: false,
        isPlain: true,
      };
    }
    let scope = holder;
    if (this.eat('d')) {
      const index = this.sequence(10);
      scope = { k: 'qual', scope: holder, name: text(`{default arg#${index + 1}}`) };
    }
    const inner = this.name(isTagged);
    this.discriminator();
    return { ...inner, node: { k: 'qual', scope, name: inner.node } };
  }

  private discriminator(): void {
    const [found] = /^_(?:\d|_\d+_)/.exec(this.source.slice(this.at, this.at + 12)) ?? [];
    if (found !== undefined) this.at += found.length;
  }

  private unqualified(scope: Node | null): Node {
    this.plain = true;
    this.eat('L');
    const letter = this.peek();
    let node: Node;
    if (/\d/.test(letter)) node = text(this.sourceName());
    else if (letter === 'U') node = this.unnamed();
    else if (letter === 'D' && this.peek(1) === 'C') node = this.binding();
    else if ((letter === 'C' || (letter === 'D' && /\d/.test(this.peek(1)))) && scope !== null) {
      const isDestructor = letter === 'D';
      this.at++;
      const isInherited = !isDestructor && this.eat('I');
      if (!/[0-5]/.test(this.peek())) this.fail();
      this.at++;
      if (isInherited) this.type();
      this.plain = false;
      node = text((isDestructor ? '~' : '') + (isUnnamed(scope) ? this.lastName : baseName(scope)));
    } else node = this.operatorName();
    while (this.eat('B')) node = { k: 'seq', parts: [node, `[abi:${this.sourceName()}]`] };
    return node;
  }

  private sourceName(): string {
    const length = this.number();
    const name = this.source.slice(this.at, this.at + length);
    if (length === 0 || name.length < length) this.fail();
    this.at += length;
    this.lastName = name;
    return /^_GLOBAL_[._$]N/.test(name) ? '(anonymous namespace)' : name;
  }

  private unnamed(): Node {
    if (this.eat('Ut')) return text(`{unnamed type#${this.sequence(10) + 1}}`);
    this.expect('Ul');
    const outer = this.inLambda;
    this.inLambda = true;
    const params = this.parameters();
    this.inLambda = outer;
    this.expect('E');
    return { k: 'seq', parts: ['{lambda(', { k: 'list', items: params }, `)#${this.sequence(10) + 1}}`] };
  }

  private binding(): Node {
    this.expect('DC');
    const names: string[] = [];
    while (!this.eat('E')) names.push(this.sourceName());
    return text(`[${names.join(', ')}]`);
  }

  private operatorName(): Node {
    const two = this.source.slice(this.at, this.at + 2);
    if (two === 'cv') {
      this.at += 2;
      const outer = this.isConversion;
      this.isConversion = true;
      const to = this.type();
      this.isConversion = outer;
      this.plain = false;
      return { k: 'seq', parts: ['operator ', to] };
    }
    if (two === 'li') {
      this.at += 2;
      return text(`operator"" ${this.sourceName()}`);
    }
    const known = OPERATORS[two];
    if (known === undefined) this.fail();
    this.at += 2;
    return text(`operator${/^[a-z]/.test(known[0]) ? ' ' : ''}${known[0].trimEnd()}`);
  }

  // -------------------------------------------------------------------------- substitutions, types

  private substitution(): Node {
    this.expect('S');
    const letter = this.peek();
    const known = STANDARD[letter];
    if (known !== undefined) {
      this.at++;
      let node: Node = { k: 'text', s: known[0], base: known[1] };
      while (this.eat('B')) {
        node = { k: 'seq', parts: [node, `[abi:${this.sourceName()}]`] };
        this.substitutions.push(node);
      }
      return node;
    }
    const index = this.sequence(36);
    const found = this.substitutions[index];
    if (found === undefined) this.fail();
    const dependent = this.dependent.get(index);
    if (dependent === undefined) return found;
    this.mentions++;
    const isSame = dependent.params === this.params && dependent.inLambda === this.inLambda;
    return isSame ? found : this.again(dependent);
  }

  /** The substitution that is added next depends on template parameters. */
  private note(start: number, what: Dependent['what']): void {
    this.dependent.set(this.substitutions.length, { start, what, params: this.params, inLambda: this.inLambda });
  }

  /** Reads what a substitution stands for where its parameters are others; adds nothing. */
  private again({ start, what }: Dependent): Node {
    if (++this.readAgain > MOST_AGAIN) this.fail();
    const [at, { length }] = [this.at, this.substitutions];
    this.at = start;
    const node = this.deeper(() => (what === 'T' ? this.templateParam() : this.substitutable()));
    for (let i = length; i < this.substitutions.length; i++) this.dependent.delete(i);
    this.substitutions.length = length;
    this.at = at;
    return node;
  }

  private templateParam(): Node {
    this.expect('T');
    if (this.peek() === 'L') this.fail();
    const index = this.sequence(10);
    this.mentions++;
    if (this.inLambda) return text(`auto:${index + 1}`);
    const { params } = this;
    const now = this.isConversion ? undefined : params[index];
    // What a conversion operator converts to comes before the arguments that it names.
    return now ?? { k: 'later', of: () => params[index] ?? null };
  }

  private templateArguments(isTagged: boolean): Node[] {
    this.expect('I');
    const args: Node[] = [];
    const [outer, { lastName }] = [this.inLambda, this];
    this.inLambda = false;
    if (isTagged) this.params.length = 0;
    while (!this.eat('E')) {
      const arg = this.templateArgument();
      args.push(arg);
      if (isTagged) this.params.push(arg);
    }
    this.inLambda = outer;
    this.lastName = lastName;
    return args;
  }

  private templateArgument(): Node {
    return this.deeper(() => {
      if (this.eat('J')) {
        const items: Node[] = [];
        while (!this.eat('E')) items.push(this.templateArgument());
        return { k: 'pack', items };
      }
      if (this.peek() === 'L') return this.literal();
      if (!this.eat('X')) return this.type();
      const node = this.expression();
      this.expect('E');
      return node;
    });
  }

  private qualifiers(): string {
    let found = '';
    const restrict = this.eat('r') ? ' restrict' : '';
    if (this.eat('V')) found = ' volatile';
    if (this.eat('K')) found = ` const${found}`;
    return found + restrict;
  }

  private type(): Node {
    return this.deeper(() => {
      const known = this.unsubstituted();
      if (known !== null) return known;
      const { at: start, mentions } = this;
      const node = this.substitutable();
      if (this.mentions > mentions) this.note(start, 'type');
      this.substitutions.push(node);
      return node;
    });
  }

  /** Types that no later substitution names: builtin ones, and substitutions themselves. */
  private unsubstituted(): Node | null {
    const letter = this.peek();
    const builtin = BUILTIN[letter];
    if (builtin !== undefined) {
      this.at++;
      return text(builtin);
    }
    if (letter === 'D') {
      const other = BUILTIN_D[this.peek(1)];
      if (other !== undefined) {
        this.at += 2;
        return text(other);
      }
      const [wide, bits, kind] = /^DF(\d+)([_bx])/.exec(this.source.slice(this.at, this.at + 8)) ?? [];
      if (wide !== undefined) {
        this.at += wide.length;
        return text(kind === 'b' ? `std::bfloat${bits!}_t` : `_Float${bits!}${kind === 'x' ? 'x' : ''}`);
      }
    }
    if (letter !== 'S' || this.peek(1) === 't') return null;
    const node = this.substitution();
    if (this.peek() !== 'I') return node;
    const made: Node = { k: 'template', base: node, args: this.templateArguments(false) };
    this.substitutions.push(made);
    return made;
  }

  private substitutable(): Node {
    const letter = this.peek();
    if (/[rVK]/.test(letter)) return this.qualified();
    if (this.eat('P')) return { k: 'pointer', of: this.type(), s: '*' };
    if (this.eat('R')) return { k: 'pointer', of: this.type(), s: '&' };
    if (this.eat('O')) return { k: 'pointer', of: this.type(), s: '&&' };
    if (letter === 'C') return (this.at++, { k: 'seq', parts: [this.type(), ' _Complex'] });
    if (letter === 'G') return (this.at++, { k: 'seq', parts: [this.type(), ' _Imaginary'] });
    if (letter === 'F') return this.functionType('');
    if (letter === 'A') return this.array();
    if (letter === 'M') return this.member();
    if (letter === 'T') return this.paramType();
    if (letter === 'D') return this.dType();
    if (letter === 'u') return (this.at++, text(this.sourceName()));
    if (letter === 'U') return this.vendorQualified();
    return this.name(false).node;
  }

  private qualified(): Node {
    const qualifiers = this.qualifiers();
    if (this.peek() === 'F' || /^D[oOwx]/.test(this.source.slice(this.at, this.at + 2))) {
      // Of a member function; its type alone is no substitution.
      const node = this.peek() === 'F' ? this.functionType(qualifiers) : this.dType(qualifiers);
      return node;
    }
    return { k: 'qualified', of: this.type(), q: qualifiers };
  }

  private functionType(qualifiers: string, exception = ''): Node {
    this.expect('F');
    this.eat('Y');
    const ret = this.type();
    const params = this.parameters();
    const ref = this.eat('RE') ? ' &' : this.eat('OE') ? ' &&' : (this.expect('E'), '');
    return { k: 'function', ret, params, q: qualifiers + ref + exception };
  }

  private array(): Node {
    this.expect('A');
    let size: Node = text('');
    if (/\d/.test(this.peek())) size = text(String(this.number()));
    else if (this.peek() !== '_') size = this.expression();
    this.expect('_');
    return { k: 'array', of: this.type(), size };
  }

  private member(): Node {
    this.expect('M');
    const holder = this.type();
    return { k: 'member', holder, of: this.type() };
  }

  private paramType(): Node {
    const start = this.at;
    const node = this.templateParam();
    // Behind what a conversion converts to come the arguments of the operator.
    if (this.peek() !== 'I' || this.isConversion) return node;
    this.note(start, 'T');
    this.substitutions.push(node);
    return { k: 'template', base: node, args: this.templateArguments(false) };
  }

  private vendorQualified(): Node {
    this.expect('U');
    const name = this.sourceName();
    const args = this.peek() === 'I' ? this.templateArguments(false) : null;
    const node = text(name);
    const said: Node = args === null ? node : { k: 'template', base: node, args };
    return { k: 'seq', parts: [this.type(), ' ', said] };
  }

  private dType(qualifiers = ''): Node {
    if (this.eat('Dp')) return { k: 'expansion', of: this.type() };
    if (/^D[tT]/.test(this.source.slice(this.at, this.at + 2))) return this.decltype();
    if (this.eat('Do')) return this.functionType(qualifiers, ' noexcept');
    if (this.eat('Dx')) return this.functionType(qualifiers, ' transaction_safe');
    if (this.eat('Dv')) {
      const size = /\d/.test(this.peek()) ? text(String(this.number())) : (this.expect('_'), this.expression());
      this.expect('_');
      return { k: 'seq', parts: [this.type(), ' __vector(', size, ')'] };
    }
    return this.fail();
  }

  private decltype(): Node {
    this.at += 2;
    const node = this.expression();
    this.expect('E');
    return { k: 'seq', parts: ['decltype (', node, ')'] };
  }

  // -------------------------------------------------------------------------------- expressions

  private literal(): Node {
    this.expect('L');
    if (this.eat('_Z')) {
      const node = this.encoding(false);
      this.expect('E');
      return node;
    }
    const letter = this.peek();
    const type = this.type();
    const [value] = /^n?[0-9a-f]*/.exec(this.source.slice(this.at)) ?? [''];
    this.at += value.length;
    this.expect('E');
    const number = value.replace(/^n/, '-');
    if (letter === 'b' && (number === '0' || number === '1')) return text(number === '1' ? 'true' : 'false');
    const suffix = LITERAL_SUFFIX[letter];
    if (suffix !== undefined) return text(number + suffix);
    if (letter === 'f' || letter === 'd' || letter === 'e') return { k: 'seq', parts: ['(', type, `)[${number}]`] };
    if (letter === 'D' && number === '') return { k: 'seq', parts: ['(', type, ')'] };
    return { k: 'seq', parts: ['(', type, ')', number] };
  }

  private expression(): Node {
    return this.deeper(() => {
      const letter = this.peek();
      if (letter === 'L') return this.literal();
      if (letter === 'T') return this.templateParam();
      const two = this.source.slice(this.at, this.at + 2);
      if (two === 'fp' || two === 'fL') return this.functionParam();
      if (two === 'sr') return this.scoped();
      if (two === 'sp') return ((this.at += 2), { k: 'expansion', of: this.expression() } as Node);
      if (two === 'st') return ((this.at += 2), { k: 'seq', parts: ['sizeof (', this.type(), ')'] } as Node);
      if (two === 'cl') return this.call();
      if (two === 'dt' || two === 'pt') {
        this.at += 2;
        const object = this.expression();
        return { k: 'seq', parts: [...operand(object), two === 'dt' ? '.' : '->', this.name(false).node] };
      }
      if (/\d/.test(letter) || two === 'on') return this.simpleName();
      return this.operation(two);
    });
  }

  private simpleName(): Node {
    this.eat('on');
    const node = this.unqualified(null);
    return this.peek() === 'I' ? { k: 'template', base: node, args: this.templateArguments(false) } : node;
  }

  private functionParam(): Node {
    if (this.eat('fpT')) return text('this');
    if (this.eat('fL')) {
      this.number();
      this.expect('p');
    } else this.expect('fp');
    this.qualifiers();
    return { k: 'text', s: `{parm#${this.sequence(10) + 1}}`, base: 'parm' };
  }

  /** `sr TYPE NAME`, `sr LEVEL+ E NAME`, `srN TYPE LEVEL+ E NAME`. */
  private scoped(): Node {
    this.expect('sr');
    const hasLevels = this.eat('N');
    let scope: Node | null = /\d/.test(this.peek()) ? null : this.type();
    if (scope === null || hasLevels) {
      while (!this.eat('E')) {
        const name = this.simpleName();
        scope = scope === null ? name : { k: 'qual', scope, name };
      }
    }
    if (scope === null) this.fail();
    return { k: 'qual', scope, name: this.simpleName() };
  }

  private call(): Node {
    this.expect('cl');
    const callee = this.expression();
    const args: Node[] = [];
    while (!this.eat('E')) args.push(this.expression());
    return { k: 'seq', parts: [...operand(callee), '(', { k: 'list', items: args }, ')'] };
  }

  private operation(code: string): Node {
    const known = OPERATORS[code];
    if (known === undefined || /^(?:cl|nw|na|dl|da|aw|pp|mm)$/.test(code)) this.fail();
    this.at += 2;
    const [sign, operands] = known;
    const first = this.expression();
    if (operands === 1) return { k: 'seq', parts: [sign, ...operand(first)] };
    const second = this.expression();
    if (operands === 2) {
      const parts: (string | Node)[] = [...operand(first), sign, ...operand(second)];
      // Otherwise it would end the template arguments.
      return { k: 'seq', parts: sign === '>' ? ['(', ...parts, ')'] : parts };
    }
    return { k: 'seq', parts: [...operand(first), '?', ...operand(second), ' : ', ...operand(this.expression())] };
  }
}

/** An operand, in parentheses unless it is a name. */
function operand(node: Node): readonly (string | Node)[] {
  const isSimple =
    (node.k === 'qual' && node.name.k !== 'template') ||
    (node.k === 'text' && (node.base !== undefined || /^[A-Za-z_]/.test(node.s)));
  return isSimple ? [node] : ['(', node, ')'];
}

const isUnnamed = (node: Node): boolean =>
  node.k === 'qual' ? isUnnamed(node.name) : node.k === 'text' && node.s.startsWith('{unnamed');

/** What constructors of a class are called. */
function baseName(node: Node): string {
  if (node.k === 'qual') return baseName(node.name);
  if (node.k === 'template') return baseName(node.base);
  if (node.k === 'text') return node.base ?? node.s;
  if (node.k === 'seq' && typeof node.parts[0] === 'object') return baseName(node.parts[0]);
  return printNode(node);
}

/** Suffixes of clones: `.constprop.0.isra.0` are two. */
function clones(suffix: string): string | null {
  let out = '';
  let rest = suffix;
  while (rest !== '') {
    const [found] = /^\.(?:[a-z_]+|\d+)(?:\.\d+)*/.exec(rest) ?? [];
    if (found === undefined) return null;
    out += ` [clone ${found}]`;
    rest = rest.slice(found.length);
  }
  return out;
}

/**
 * The name that a symbol stands for, as `c++filt` writes it; null for what is none, or not served.
 */
export function demangleItanium(symbol: string): string | null {
  const dot = symbol.indexOf('.');
  const suffix = dot < 0 ? '' : clones(symbol.slice(dot));
  if (suffix === null) return null;
  try {
    const { left, right } = leftAndRight(new Parser(dot < 0 ? symbol : symbol.slice(0, dot)).whole());
    return left + right + suffix;
  } catch (error) {
    if (error instanceof NotServed || error instanceof RangeError) return null;
    throw error;
  }
}
