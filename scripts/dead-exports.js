/**
 * Part of `npm run lint`: exports that no other file imports, and modules of src that nothing
 * imports. What src/index.ts exports is used by whom we do not know. `import * as name` and
 * `export *` count for every export of their module. A type that its own module uses may be
 * exported: it is the shape of something that others call.
 *
 *   node scripts/dead-exports.js [--fix]     with --fix: what its own module uses is no longer
 *                                            exported, the rest is taken out
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ts = createRequire(import.meta.url)('typescript');
const root = join(dirname(fileURLToPath(import.meta.url)), '..');
/** Modules that are started or published, not imported. */
const ENTRIES = ['index', 'cli/command', 'cli/start', 'cli/main', 'cli/worker', 'page/client/main'].map(
  (name) => `src/${name}.ts`,
);
/** Modules that code loads by a path that it puts together, or that jest loads. */
const LOADED_BY_PATH = [
  /^test\/.*\.test\.ts$/,
  /^scripts\//,
  /^bench\//,
  /^test\/support\/(?:engine|jest-globals|scratch-root)\.ts$/,
];

const files = ['src', 'test', 'bench', 'scripts'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.d.ts'))
    .map((name) => `${folder}/${name}`),
);

/** Names by module that some other module takes; '*' takes all. */
const used = new Map(files.map((file) => [file, new Set()]));
/** Exported names by module, with where they are declared. */
const exported = new Map(files.map((file) => [file, new Map()]));
/** By module and name: where a name that is passed on comes from. */
const passedOn = [];

const isExported = (node) =>
  ts.canHaveModifiers(node) && ts.getModifiers(node)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword);

for (const file of files) {
  const source = ts.createSourceFile(file, readFileSync(join(root, file), 'utf8'), ts.ScriptTarget.ES2022);
  const target = (specifier) =>
    specifier.startsWith('.')
      ? join(dirname(file), specifier)
          .replace(/(?:\?.*)?$/, '')
          .replace(/\.js$/, '.ts')
      : null;
  const use = (specifier, name) => used.get(target(specifier) ?? '')?.add(name);
  const own = exported.get(file);
  const { text } = source;
  const isUsedInside = (name) =>
    text.match(new RegExp(`(?<![\\w$])${name.replaceAll('$', '\\$')}(?![\\w$])`, 'g')).length > 1;
  /** `node`: the statement, where it declares this name alone. */
  const declare = (name, node = null) => {
    const isType = node !== null && (ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node));
    const inside = isUsedInside(name.text);
    if (isType && inside) return;
    const line = source.getLineAndCharacterOfPosition(name.getStart(source)).line + 1;
    const span = node === null ? null : { from: node.getFullStart(), start: node.getStart(source), to: node.end };
    own.set(name.text, { line, inside, span });
  };
  const visit = (node) => {
    if (
      ts.isCallExpression(node) &&
      node.expression.kind === ts.SyntaxKind.ImportKeyword &&
      ts.isStringLiteralLike(node.arguments[0])
    ) {
      use(node.arguments[0].text, '*');
    }
    if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) use(node.argument.literal.text, '*');
    ts.forEachChild(node, visit);
  };
  visit(source);
  for (const node of source.statements) {
    if (ts.isImportDeclaration(node)) {
      const specifier = node.moduleSpecifier.text;
      const named = node.importClause?.namedBindings;
      if (!named) use(specifier, '');
      else if (ts.isNamespaceImport(named)) use(specifier, '*');
      else for (const each of named.elements) use(specifier, (each.propertyName ?? each.name).text);
    } else if (ts.isExportDeclaration(node) && node.moduleSpecifier) {
      const specifier = node.moduleSpecifier.text;
      if (!node.exportClause || ts.isNamespaceExport(node.exportClause))
        passedOn.push({ file, name: '*', from: target(specifier), as: '*' });
      else
        for (const each of node.exportClause.elements) {
          declare(each.name, each);
          passedOn.push({
            file,
            name: (each.propertyName ?? each.name).text,
            from: target(specifier),
            as: each.name.text,
          });
        }
    } else if (ts.isExportDeclaration(node) && ts.isNamedExports(node.exportClause)) {
      for (const each of node.exportClause.elements) declare(each.name);
    } else if (isExported(node)) {
      if (ts.isVariableStatement(node)) {
        const names = (name) =>
          ts.isIdentifier(name) ? [name] : name.elements.flatMap((each) => (each.name ? names(each.name) : []));
        for (const each of node.declarationList.declarations) {
          const all = names(each.name);
          for (const name of all)
            declare(name, node.declarationList.declarations.length === 1 && all.length === 1 ? node : null);
        }
      } else if (node.name) declare(node.name, node);
    }
  }
}
for (const entry of ENTRIES) used.get(entry)?.add('*');
for (const file of files) if (LOADED_BY_PATH.some((each) => each.test(file))) used.get(file).add('*');

const isUsed = (file, name) => used.get(file).has('*') || used.get(file).has(name);
// What passes a used name on uses it, through any number of modules.
for (let changed = true; changed;) {
  changed = false;
  for (const { file, name, from, as } of passedOn) {
    const names = used.get(from ?? '');
    if (!names) continue;
    const wanted = as === '*' ? [...used.get(file)] : isUsed(file, as) ? [name] : [];
    for (const each of wanted) {
      if (names.has(each)) continue;
      names.add(each);
      changed = true;
    }
  }
}

const isFixing = process.argv[2] === '--fix';
let dead = 0;
for (const file of files) {
  if (used.get(file).size === 0) {
    console.log(`${file}: nothing imports it`);
    dead++;
    continue;
  }
  const found = [...exported.get(file)].filter(([name]) => !isUsed(file, name));
  if (isFixing) fix(file, found);
  for (const [name, { line, inside, span }] of found) {
    if (isFixing && span !== null) continue;
    console.log(
      `${file}:${line}: nothing imports ${name}${inside ? '; only its module uses it' : ', nothing uses it'}`,
    );
    dead++;
  }
}
if (dead > 0) {
  console.log(`${dead} dead exports`);
  process.exitCode = 1;
}

/** From the end, so that places stay true. */
function fix(file, found) {
  const path = join(root, file);
  let text = readFileSync(path, 'utf8');
  const places = found.map(([, place]) => place).filter(({ span }) => span !== null);
  for (const { inside, span } of places.sort((a, b) => b.span.from - a.span.from)) {
    const statement = text.slice(span.start, span.to);
    const isSpecifier = !statement.startsWith('export ');
    if (isSpecifier) {
      const rest = text.slice(span.to).replace(/^\s*,/, '');
      text = (text.slice(0, span.from) + rest).replace(/export (?:type )?\{\s*\} from '[^']*';\n/, '');
      continue;
    }
    const kept = inside ? text.slice(span.from, span.start) + statement.replace('export ', '') : '';
    text = text.slice(0, span.from) + kept + text.slice(span.to);
  }
  if (places.length > 0) writeFileSync(path, text);
}
