/**
 * Writes the tree of a C++ name. Declarations have two sides, `void (*` and `)(int)`, and what
 * they declare stands between them.
 */

export type Node =
  /** `base`: what constructors are called, or a sign that it is one name. */
  | { readonly k: 'text'; readonly s: string; readonly base?: string }
  | { readonly k: 'seq'; readonly parts: readonly (string | Node)[] }
  | { readonly k: 'list'; readonly items: readonly Node[] }
  | { readonly k: 'qual'; readonly scope: Node; readonly name: Node }
  | { readonly k: 'template'; readonly base: Node; readonly args: readonly Node[] }
  | { readonly k: 'pack'; readonly items: readonly Node[] }
  | { readonly k: 'expansion'; readonly of: Node }
  | { readonly k: 'qualified'; readonly of: Node; readonly q: string }
  | { readonly k: 'pointer'; readonly of: Node; readonly s: '*' | '&' | '&&' }
  | { readonly k: 'array'; readonly of: Node; readonly size: Node }
  | { readonly k: 'function'; readonly ret: Node; readonly params: readonly Node[]; readonly q: string }
  | { readonly k: 'member'; readonly holder: Node; readonly of: Node }
  | {
      readonly k: 'encoding';
      readonly name: Node;
      readonly ret: Node | null;
      readonly params: readonly Node[];
      readonly q: string;
    }
  | { readonly k: 'later'; readonly of: () => Node | null };

export interface Sides {
  readonly left: string;
  readonly right: string;
}

/** Longer names, and trees that are visited more often, are damage: substitutions can double. */
const MOST_LETTERS = 1 << 18;
const MOST_VISITS = 1 << 18;

class Printer {
  private visits = 0;
  /** Which element of packs is meant; -1: outside of expansions. */
  private element = -1;
  /** Elements of the pack that an expansion met; -1: none. */
  private elements = -1;

  whole(node: Node): string {
    const { left, right } = this.sides(node);
    return left + right;
  }

  sides(node: Node): Sides {
    const { left, right } = this.parts(node);
    if (++this.visits > MOST_VISITS || left.length + right.length > MOST_LETTERS) throw new RangeError('name too long');
    return { left, right };
  }

  private parts(node: Node): Sides {
    switch (node.k) {
      case 'text':
        return { left: node.s, right: '' };
      case 'seq':
        return one(node.parts.map((part) => (typeof part === 'string' ? part : this.whole(part))).join(''));
      case 'list':
        return one(this.list(node.items));
      case 'qual':
        return one(`${this.whole(node.scope)}::${this.whole(node.name)}`);
      case 'template':
        return one(this.template(this.whole(node.base), this.list(node.args), this.endsEmpty(node.args)));
      case 'pack':
        return this.pack(node.items);
      case 'expansion':
        return one(this.expansion(node.of));
      case 'qualified': {
        const inner = this.sides(node.of);
        return { left: withQualifiers(inner.left, node.q), right: inner.right };
      }
      case 'pointer':
        return this.pointer(node);
      case 'array': {
        const inner = this.sides(node.of);
        return { left: inner.left, right: ` [${this.whole(node.size)}]${inner.right.trimStart()}` };
      }
      case 'function': {
        const ret = this.sides(node.ret);
        return {
          left: `${ret.left}${ret.right === '' ? ' ' : ''}`,
          right: `(${this.list(node.params)})${node.q}${ret.right}`,
        };
      }
      case 'member':
        return this.member(node.holder, node.of);
      case 'encoding':
        return this.encoding(node);
      case 'later': {
        const found = node.of();
        if (found === null) throw new RangeError('no such template argument');
        return this.sides(found);
      }
      default:
        return node satisfies never;
    }
  }

  private list(items: readonly Node[]): string {
    return items
      .map((item) => this.whole(item))
      .filter((each) => each !== '')
      .join(', ');
  }

  private endsEmpty(args: readonly Node[]): boolean {
    const last = args.at(-1);
    if (last === undefined) return false;
    if (last.k === 'pack' && last.items.length > 0)
      return this.endsEmpty(args.length > 1 ? [args[0]!, ...last.items] : last.items);
    return args.length > 1 && this.whole(last) === '';
  }

  /** c++filt writes `> >`, and `>>` where an empty pack comes last. */
  private template(base: string, args: string, endsEmpty: boolean): string {
    return `${base}${base.endsWith('<') ? ' ' : ''}<${args}${args.endsWith('>') && !endsEmpty ? ' ' : ''}>`;
  }

  /** The element that the expansion around it is at; all of them outside of one. */
  private pack(items: readonly Node[]): Sides {
    this.meet(items);
    if (this.element < 0) return one(this.list(items));
    const item = items[this.element];
    return item === undefined ? one('') : this.apart(() => this.sides(item));
  }

  /** The first pack inside of an expansion says how many elements there are. */
  private meet(items: readonly Node[]): void {
    if (this.elements !== -2) return;
    this.elements = items.length;
    this.element = 0;
  }

  /** Packs inside of an element are none of the expansion's. */
  private apart<T>(work: () => T): T {
    const outer = [this.element, this.elements] as const;
    [this.element, this.elements] = [-1, -1];
    const result = work();
    [this.element, this.elements] = outer;
    return result;
  }

  private expansion(of: Node): string {
    const outer = [this.element, this.elements] as const;
    [this.element, this.elements] = [-1, -2];
    let said = this.whole(of);
    const count = this.elements;
    if (count === -2) said += '...';
    else if (count === 0) said = '';
    else {
      const each = [said];
      for (this.element = 1; this.element < count; this.element++) each.push(this.whole(of));
      said = each.join(', ');
    }
    [this.element, this.elements] = outer;
    return said;
  }

  /** References to references are references of the lower kind. */
  private pointer(node: Node & { k: 'pointer' }): Sides {
    let { of, s } = node;
    let isElement = false;
    if (s !== '*') {
      for (;;) {
        const inner = this.settled(of);
        if (inner.node.k !== 'pointer' || inner.node.s === '*') break;
        if (inner.node.s === '&') s = '&';
        of = inner.node.of;
        isElement ||= inner.isElement;
      }
    }
    const work = (): Sides => {
      const target = this.settled(of).node;
      const inner = this.sides(of);
      if (!isDeclarator(target)) return { left: inner.left + s, right: inner.right };
      const isArray = target.k === 'array' || (target.k === 'qualified' && target.of.k === 'array');
      return { left: `${inner.left}${isArray ? ' ' : ''}(${s}`, right: `)${inner.right}` };
    };
    return isElement ? this.apart(work) : work();
  }

  /** What a template parameter, or an element of a pack, stands for. */
  private settled(node: Node): { readonly node: Node; readonly isElement: boolean } {
    if (node.k === 'later') {
      const found = node.of();
      return found === null ? { node, isElement: false } : this.settled(found);
    }
    if (node.k !== 'pack') return { node, isElement: false };
    this.meet(node.items);
    const item = this.element < 0 ? undefined : node.items[this.element];
    return item === undefined
      ? { node, isElement: false }
      : { node: this.apart(() => this.settled(item)).node, isElement: true };
  }

  private member(holder: Node, of: Node): Sides {
    const inner = this.sides(of);
    const name = this.whole(holder);
    if (!isDeclarator(this.settled(of).node)) return { left: `${inner.left} ${name}::*`, right: inner.right };
    return { left: `${inner.left}(${name}::*`, right: `)${inner.right}` };
  }

  private encoding({ name, ret, params, q }: Node & { k: 'encoding' }): Sides {
    const declared = `${this.whole(name)}(${this.list(params)})${q}`;
    if (ret === null) return one(declared);
    const { left, right } = this.sides(ret);
    return one(`${left}${right === '' ? ' ' : ''}${declared}${right}`);
  }
}

const one = (left: string): Sides => ({ left, right: '' });

/** Whether a pointer to it needs parentheses. */
function isDeclarator(node: Node): boolean {
  if (node.k === 'qualified') return isDeclarator(node.of);
  return node.k === 'function' || node.k === 'array';
}

/** Qualifiers that are there are not said twice. */
function withQualifiers(left: string, qualifiers: string): string {
  return qualifiers !== '' && left.endsWith(qualifiers) ? left : left + qualifiers;
}

export function leftAndRight(node: Node): Sides {
  return new Printer().sides(node);
}

export function printNode(node: Node): string {
  return new Printer().whole(node);
}
