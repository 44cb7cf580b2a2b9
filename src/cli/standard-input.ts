/**
 * What a file named `-` is called inside and in messages: yargs drops the word itself. Every system
 * that has Node has this name or no such file.
 */
export const STANDARD_INPUT = '/dev/stdin';
