/** Rules of our own for eslint.config.js. */

/** Whether a call makes a test: test(…), test.each(…)(…), longTest(…), testOnce(…)(…). */
function isTest(callee) {
  if (callee.type === 'Identifier') return /^(?:test|it|longTest|testOnce)$/.test(callee.name);
  if (callee.type === 'MemberExpression') return isTest(callee.object);
  if (callee.type === 'CallExpression') return isTest(callee.callee);
  return callee.type === 'TaggedTemplateExpression' && isTest(callee.tag);
}

const linesOf = ({ loc }) => loc.end.line - loc.start.line + 1;

/**
 * A test function has at most `max` lines. Rows of tables (literals of arrays and objects that take
 * several lines) and lines of templates do not count: a table may have as many rows as there are
 * cases.
 */
const testLength = {
  meta: {
    type: 'suggestion',
    schema: [{ type: 'object', properties: { max: { type: 'integer' } }, additionalProperties: false }],
    messages: { long: 'A test of {{lines}} lines, tables apart; {{max}} is the most. One behaviour, one test.' },
  },
  create(context) {
    const max = context.options[0]?.max ?? 60;
    /** Functions of tests that we are in, with the lines of their tables. */
    const open = [];
    const isOuterTable = (node) => {
      for (let up = node.parent; up && up !== open.at(-1)?.body; up = up.parent) {
        if (['ArrayExpression', 'ObjectExpression', 'TemplateLiteral'].includes(up.type)) return false;
        if (/Function/.test(up.type)) return true;
      }
      return true;
    };
    const table = (node) => {
      const test = open.at(-1);
      // The first and last line stand for the statement that the table is part of.
      if (test && isOuterTable(node)) test.table += Math.max(0, linesOf(node) - 2);
    };
    const isTestFunction = ({ parent }) => parent.type === 'CallExpression' && isTest(parent.callee);
    return {
      ':function'(node) {
        if (isTestFunction(node)) open.push({ body: node, table: 0 });
      },
      ':function:exit'(node) {
        if (open.at(-1)?.body !== node) return;
        const lines = linesOf(node) - open.pop().table;
        if (lines > max) context.report({ node, messageId: 'long', data: { lines, max } });
      },
      ArrayExpression: table,
      ObjectExpression: table,
      TemplateLiteral: table,
    };
  },
};

/** The one expression that a function is, or returns; null where it does more. */
function onlyExpression({ body }) {
  if (body.type !== 'BlockStatement') return body;
  const [first, ...others] = body.body;
  return others.length === 0 && first?.type === 'ReturnStatement' ? first.argument : null;
}

/**
 * A function has at most `max` lines of code: blank lines, comments and lines inside of templates
 * do not count, and a function that only gives a table (a literal of an array or object) is one.
 */
const functionLength = {
  meta: {
    type: 'suggestion',
    schema: [{ type: 'object', properties: { max: { type: 'integer' } }, additionalProperties: false }],
    messages: { long: 'A function of {{lines}} lines of code; {{max}} is the most. Take it apart by what it owns.' },
  },
  create(context) {
    const max = context.options[0]?.max ?? 60;
    const { sourceCode } = context;
    return {
      ':function:exit'(node) {
        if (linesOf(node) <= max) return;
        const table = onlyExpression(node);
        if (/^(?:Array|Object)Expression$/.test(table?.expression?.type ?? table?.type ?? '')) return;
        const lines = new Set();
        for (const { loc } of sourceCode.getTokens(node)) lines.add(loc.start.line).add(loc.end.line);
        if (lines.size > max) context.report({ node, messageId: 'long', data: { lines: lines.size, max } });
      },
    };
  },
};

const VAGUE = /\b(?:whoever|whomever|somebody|nobody|anybody|everybody)\b/i;

/** A comment names its subject: a thread, a caller, a compiler, a user, not somebody. */
const commentSubject = {
  meta: {
    type: 'suggestion',
    schema: [],
    messages: { vague: '"{{word}}" is no subject: name the one that is meant.' },
  },
  create: ({ report, sourceCode }) => ({
    Program() {
      for (const { value, loc } of sourceCode.getAllComments()) {
        const word = VAGUE.exec(value)?.[0];
        if (word !== undefined) report({ loc, messageId: 'vague', data: { word } });
      }
    },
  }),
};

export const ownRules = {
  rules: { 'test-length': testLength, 'function-length': functionLength, 'comment-subject': commentSubject },
};
