/** Lists what the released client for TypeScript has (tools/clients). This project imports the files themselves. */
export {
  answered,
  answeredUnlessEmpty,
  answeredUnlessUnchanged,
  createApiClient,
  done,
} from './api-client.ts'
export type { Answered, ApiClient, CreateVm, Image, Snapshot, Vm } from './api-client.ts'
export { ApiProblem, UnexpectedAnswer } from './api-problem.ts'
export type { Problem } from './api-problem.ts'
export type { Connection } from './connection.ts'
export { ConnectionFailed, mayPass } from './connection-failed.ts'
export type { FailureKind } from './connection-failed.ts'
export { ImpossibleId } from './path-part.ts'
export { readEvents } from './events.ts'
export type { EventSight, EventStart, HostEvent, ReadEventsOptions } from './events.ts'
export type { components, FaultCode, operations, paths, ProblemCode } from './schema.d.ts'
export { watchMaintenance, watchSnapshot, watchVm } from './watch.ts'
export type { Sight, WatchOptions } from './watch.ts'
