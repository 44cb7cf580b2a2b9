/** The public surface of the races: sequences of steps against threads, every order of them. */
export { multinomial, race, startRace } from './explore.js';
export type {
  Bound,
  FailingSchedule,
  RaceCounts,
  RaceOptions,
  RaceProgress,
  RaceResult,
  RaceSearch,
  ScheduleEntry,
} from './explore.js';
export { wordBytes } from './model.js';
export { type Breakage, breakages, broken, pokeSequence, splitStores, textSteps } from './sequence.js';
export type {
  CodeExtent,
  Condition,
  EndView,
  Patcher,
  ProbeEntry,
  Property,
  RaceAction,
  RaceStep,
  RaceThread,
  ReturnView,
  RuleName,
  Scene,
  Sequence,
  Unit,
  UnitForm,
  Violation,
} from './model.js';
export type { Actor } from './world.js';
export { tell, watchedPlace } from './story.js';
export type { RegisterChange, Story, StoryEvent, StoryStep } from './story.js';
export { type Hazard, type HazardForm, hazards, type RaceCase } from './hazards.js';
export {
  type ImageRace,
  imageRace,
  type ImageRaceRequest,
  parseRaceState,
  type RaceState,
  type RaceVariant,
} from './image.js';
export { parseProbeStates, probeRace, type ProbeRaceRequest, type ProbeRaceState } from './image-probes.js';
