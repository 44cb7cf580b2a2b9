/**
 * The file beside the starter that holds all verbs as one script, named by what is in it. None
 * here: the bundle puts its name in this one's place (`scripts/bundle.ts`).
 */
export const WHOLE: string | null = null;
