import tseslint from 'typescript-eslint';
import { ownRules } from './scripts/eslint-rules.js';

/** Whether a comment of more than 100 columns is an error. */
const COMMENT_WIDTH = 'error';

export default tseslint.config(
  { ignores: ['build/**', 'dist/**', 'node_modules/**', 'samples/**'] },
  ...tseslint.configs.strict,
  {
    rules: {
      // A register file indexed by a 5-bit field cannot miss; elsewhere the checker below asks for
      // a reason.
      '@typescript-eslint/no-non-null-assertion': 'off',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-extraneous-class': 'off',
      'no-restricted-syntax': [
        'error',
        { selector: 'ExportDefaultDeclaration', message: 'Named exports only.' },
        { selector: 'TSEnumDeclaration', message: 'Use a string union or an `as const` table.' },
      ],
      eqeqeq: 'error',
      'no-console': 'error',
    },
  },
  // The compiler says the same of names that are not used, as an error of types.
  { files: ['**/*.ts'], rules: { '@typescript-eslint/no-unused-vars': 'off' } },
  { files: ['*.js'], rules: { 'no-restricted-syntax': 'off' } },
  {
    rules: {
      // Code is prettier's.
      'max-len': [COMMENT_WIDTH, { code: 10_000, comments: 100, ignoreUrls: true }],
    },
  },
  {
    files: ['test/**/*.test.ts'],
    plugins: { own: ownRules },
    rules: { 'own/test-length': ['error', { max: 60 }] },
  },
  { files: ['src/**'], plugins: { own: ownRules }, rules: { 'own/comment-subject': 'error' } },
  {
    files: ['src/**', 'scripts/**', 'bench/**'],
    plugins: { own: ownRules },
    rules: { 'own/function-length': ['error', { max: 60 }] },
  },
  { files: ['scripts/**', 'bench/**'], rules: { 'no-console': 'off' } },
  { files: ['scripts/*.js'], rules: { 'no-restricted-syntax': 'off' } },
);
