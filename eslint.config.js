import tseslint from 'typescript-eslint';

export default tseslint.config(
  { ignores: ['build/**', 'dist/**', 'node_modules/**', 'samples/**'] },
  ...tseslint.configs.strict,
  {
    rules: {
      // A register file indexed by a 5-bit field cannot miss; elsewhere the checker below asks for a reason.
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
  { files: ['*.js'], rules: { 'no-restricted-syntax': 'off' } },
  { files: ['scripts/**', 'bench/**'], rules: { 'no-console': 'off' } },
  { files: ['scripts/*.js'], rules: { 'no-restricted-syntax': 'off' } },
);
