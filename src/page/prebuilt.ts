/**
 * The script of pages: `client/`, with what it uses, in one text. The bundle puts it in here
 * (`scripts/bundle.ts`); from sources there is none.
 */
export const PAGE_SCRIPT: string = '';
