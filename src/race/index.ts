/** The public surface of the races: sequences of steps against threads, every order of them. */
export { race, startRace } from './explore.js';
export type { RaceSearch } from './explore.js';
export { multinomial } from './search.js';
export type { FailingSchedule, RaceCounts, RaceOptions, RaceProgress, RaceResult } from './search.js';
export { wordBytes } from './model.js';
export { type Breakage, broken, textSteps } from './sequence.js';
export type { Patcher, ProbeEntry, Property, RaceStep, RaceThread, Scene, Sequence, Violation } from './model.js';
export { tell } from './story.js';
export type { Story, StoryStep } from './story.js';
export { type Hazard, type HazardForm, hazards, type RaceCase } from './hazards.js';
export {
  type ImageRace,
  imageRace,
  type ImageRaceRequest,
  parseRaceState,
  type RaceState,
  type RaceVariant,
} from './image.js';
export { entriesAsked, idleAsked, parseRaceVariant, probeVariants } from './options.js';
export { parseProbeStates, probeRace, type ProbeRaceRequest, type ProbeRaceState } from './image-probes.js';
