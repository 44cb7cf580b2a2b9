/**
 * The public API as the declaration files of the package state it, one declaration after the
 * other, without comments: `docs/api.txt`. The types that they name and that are not exported are
 * listed at the end. A change of the API is a change of that file, for a reviewer to see.
 *
 *   node build/scripts/api-report.js [--write]    prints it, or writes the page; needs dist/types
 *
 * `apiBreaks` compares two such reports; `test/api.test.ts` holds the page against the last
 * release's (`docs/api-0.1.0.txt`) and the breaks against CHANGELOG.md.
 */
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
/** In front of each declaration. */
const MARK = '// ';
const INNER = 'Named by these, and not exported:';

const printer = ts.createPrinter({ removeComments: true });

/** A declaration without what only its own module sees. */
function shown(node: ts.Declaration): ts.Node {
  const statement = ts.isVariableDeclaration(node) ? node.parent.parent : node;
  const isHidden = (member: ts.ClassElement): boolean =>
    (ts.getCombinedModifierFlags(member) & ts.ModifierFlags.Private) !== 0 ||
    (member.name !== undefined && ts.isPrivateIdentifier(member.name));
  if (!ts.isClassDeclaration(statement)) return statement;
  const { modifiers, name, typeParameters, heritageClauses, members } = statement;
  const visible = members.filter((member) => !isHidden(member));
  return ts.factory.updateClassDeclaration(statement, modifiers, name, typeParameters, heritageClauses, visible);
}

/** Names of own types that a declaration mentions. */
function mentioned(checker: ts.TypeChecker, node: ts.Node, take: (symbol: ts.Symbol) => void): void {
  const visit = (each: ts.Node): void => {
    if (ts.isIdentifier(each)) {
      const found = checker.getSymbolAtLocation(each);
      if (found !== undefined) take(original(checker, found));
    }
    ts.forEachChild(each, visit);
  };
  visit(node);
}

const original = (checker: ts.TypeChecker, symbol: ts.Symbol): ts.Symbol =>
  (symbol.flags & ts.SymbolFlags.Alias) !== 0 ? checker.getAliasedSymbol(symbol) : symbol;

/** Whether a symbol is a declaration of a module of the package, not a member or a parameter. */
const isTopLevel = (symbol: ts.Symbol, folder: string): boolean =>
  symbol.declarations?.some((each) => {
    const holder = ts.isVariableDeclaration(each) ? each.parent.parent : each;
    return ts.isSourceFile(holder.parent) && each.getSourceFile().fileName.startsWith(folder);
  }) ?? false;

function declarationText(symbol: ts.Symbol): string {
  const texts = (symbol.declarations ?? []).map((each) =>
    printer.printNode(ts.EmitHint.Unspecified, shown(each), each.getSourceFile()),
  );
  return texts
    .join('\n')
    .replaceAll(/^export (?:declare )?|^declare /gm, '')
    .replaceAll(/^ +/gm, (indent) => ' '.repeat(indent.length / 2));
}

/** What `index.d.ts` of a folder of declaration files exports, by name. */
function exportsOf(folder: string): { checker: ts.TypeChecker; exported: ReadonlyMap<string, ts.Symbol> } {
  const entry = join(folder, 'index.d.ts');
  const program = ts.createProgram([entry], {
    noLib: true,
    types: [],
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
  });
  const checker = program.getTypeChecker();
  const source = program.getSourceFile(entry);
  const module = source && checker.getSymbolAtLocation(source);
  if (module === undefined) throw new Error(`${entry} is missing: run 'npm run build' first`);
  const exported = new Map<string, ts.Symbol>();
  for (const symbol of checker.getExportsOfModule(module)) exported.set(symbol.name, original(checker, symbol));
  return { checker, exported };
}

/** Functions, classes and values without a docstring. */
export function undocumented(folder: string): readonly string[] {
  const { checker, exported } = exportsOf(folder);
  const values = ts.SymbolFlags.Function | ts.SymbolFlags.Class | ts.SymbolFlags.Variable;
  return [...exported].flatMap(([name, symbol]) =>
    (symbol.flags & values) !== 0 && symbol.getDocumentationComment(checker).length === 0 ? [name] : [],
  );
}

/** The report on `index.d.ts` in a folder of declaration files. */
export function apiReport(folder: string): string {
  const { checker, exported } = exportsOf(folder);
  const outer = new Set(exported.values());
  const inner = new Set<string>();
  for (const symbol of outer) {
    for (const declaration of symbol.declarations ?? []) {
      mentioned(checker, shown(declaration), (each) => {
        if (!outer.has(each) && isTopLevel(each, folder)) inner.add(each.name);
      });
    }
  }
  const byName = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number => (a < b ? -1 : 1);
  const blocks = [...exported].sort(byName).map(([name, symbol]) => `${MARK}${name}\n${declarationText(symbol)}\n`);
  const others = [...inner].sort().map((name) => `${MARK}  ${name}\n`);
  return [...blocks, `${MARK}${INNER}\n${others.join('')}`].join('\n');
}

/** Exported names of a report with the lines of their declarations. */
function declarationsOf(report: string): ReadonlyMap<string, readonly string[]> {
  return new Map(
    report
      .split(`\n${MARK}${INNER}`, 1)[0]!
      .split(/^\/\/ /m)
      .filter((block) => block !== '')
      .map((block) => {
        const [name, ...lines] = block.trimEnd().split('\n');
        return [name!, lines] as const;
      }),
  );
}

export interface ApiBreak {
  readonly name: string;
  /** Lines of its declaration that are no longer there; null: the name itself is gone. */
  readonly lines: readonly string[] | null;
}

/**
 * Exports that are gone, or of whose declaration a line is: what a program could rely on. Lines
 * that came are no break, although a member that an argument must have now would be one. Nor are
 * quotes, which compilers choose for the texts of types that they found themselves.
 */
export function apiBreaks(before: string, now: string): readonly ApiBreak[] {
  const present = declarationsOf(now.replaceAll('"', "'"));
  return [...declarationsOf(before.replaceAll('"', "'"))].flatMap(([name, lines]): ApiBreak[] => {
    const left = present.get(name);
    if (left === undefined) return [{ name, lines: null }];
    const gone = lines.filter((line) => !left.includes(line));
    return gone.length === 0 ? [] : [{ name, lines: gone }];
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const report = apiReport(join(root, 'dist', 'types'));
  if (process.argv.includes('--write')) writeFileSync(join(root, 'docs', 'api.txt'), report);
  else process.stdout.write(report);
}
