/**
 * What the scripts beside the starter are called, by all that is in them. None here: the bundle
 * puts their name in this one's place (`scripts/bundle.ts`).
 */
export const SCRIPTS: string | null = null;
