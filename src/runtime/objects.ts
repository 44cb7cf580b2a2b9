export const OBJECTS: Readonly<Record<string, { readonly base64: string }>> = {};
