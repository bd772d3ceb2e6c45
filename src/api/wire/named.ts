import { Type } from 'typebox'
import { isObject } from '../../lib/parsed-values.ts'
import { problemSchema, exampleOf } from './problem.ts'
import { consoleFromDaemonSchema, consoleFromViewerSchema } from './console.ts'
import { offerVmSchema, takeVmSchema } from './migration.ts'
import { setNetworkSchema } from './network.ts'
import { manifestSchema } from './manifest.ts'
import {
  arrivalOnlySchema,
  handOverSchema,
  heldPacketsSchema,
  movedConsoleSchema,
  moveStageSchema,
  releaseSchema,
  roundSchema,
  takeRoundSchema,
} from './moves.ts'
import { maintenanceProgressSchema, setMaintenanceSchema } from './maintenance.ts'
import { planSchema } from './plan.ts'
import {
  createVmSchema,
  resizeSchema,
  setComputeSchema,
  setDiskSchema,
  setBootSchema,
  setMetadataSchema,
  rebootSchema,
  rebuildSchema,
  setPowerSchema,
  setSeedSchema,
} from './requests.ts'
import { setReadinessSchema } from './guest.ts'
import { setExitSchema } from './exit.ts'
import { keepAwakeSchema } from './sleep.ts'
import { countersSchema } from './counters.ts'
import { completeSnapshotSchema, snapshotUrlsSchema, startSnapshotSchema } from './snapshot-requests.ts'
import { snapshotListSchema, snapshotSchema } from './snapshot.ts'
import { imageListSchema, imageRemovalSchema, imageSchema } from './images.ts'
import { eventListSchema, eventSchema, eventStartSchema } from './events.ts'
import { syncSchema } from './sync.ts'
import { vmListSchema, vmSchema } from './vm.ts'
import { vmStateListSchema, vmStateSchema } from './vm-state.ts'
import type { Static, TSchema } from 'typebox'

const problem = { ...problemSchema, examples: [exampleOf('invalid_request')] }

/** Schemas that have a name in the OpenAPI document of the controller API, and so in the clients made from it. */
export const namedSchemas = {
  Vm: opened(vmSchema),
  VmList: vmListSchema,
  VmState: vmStateSchema,
  VmStateList: vmStateListSchema,
  CreateVm: createVmSchema,
  SetPower: setPowerSchema,
  Reboot: rebootSchema,
  SetCompute: setComputeSchema,
  Resize: resizeSchema,
  SetDisk: setDiskSchema,
  SetNetwork: setNetworkSchema,
  SetBoot: setBootSchema,
  Rebuild: rebuildSchema,
  SetSeed: setSeedSchema,
  SetMetadata: setMetadataSchema,
  KeepAwake: keepAwakeSchema,
  SetReadiness: setReadinessSchema,
  SetExit: setExitSchema,
  OfferVm: offerVmSchema,
  TakeVm: takeVmSchema,
  Plan: planSchema,
  Counters: countersSchema,
  Snapshot: snapshotSchema,
  SnapshotList: snapshotListSchema,
  StartSnapshot: startSnapshotSchema,
  SnapshotUrls: snapshotUrlsSchema,
  CompleteSnapshot: completeSnapshotSchema,
  Image: imageSchema,
  ImageList: imageListSchema,
  ImageRemoval: imageRemovalSchema,
  Sync: syncSchema,
  Maintenance: maintenanceProgressSchema,
  SetMaintenance: setMaintenanceSchema,
  Event: eventSchema,
  EventList: eventListSchema,
  EventStart: eventStartSchema,
  ConsoleFromDaemon: consoleFromDaemonSchema,
  ConsoleFromViewer: consoleFromViewerSchema,
  Problem: problem,
} as const

/** The same for the API of other hosts. */
export const coordinationSchemas = {
  Manifest: manifestSchema,
  TakeRound: takeRoundSchema,
  Round: roundSchema,
  Arrival: arrivalOnlySchema,
  HandOver: handOverSchema,
  Release: releaseSchema,
  MoveStage: moveStageSchema,
  MovedConsole: movedConsoleSchema,
  HeldPackets: heldPacketsSchema,
  Problem: problem,
} as const

/** The same for readers of metrics. */
export const metricsSchemas = { Problem: problem } as const

/**
 * Returns the schema of an answer without the bounds of the parts that it shares with requests: a later daemon may add
 * members to an answer. A manifest keeps them: a host must not take a VM whose rules it does not understand.
 */
function opened<S extends TSchema>(schema: S): S {
  return withoutBound(schema) as S
}

function withoutBound(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutBound)
  if (!isObject(value)) return value
  const { additionalProperties, ...members } = value
  const kept = additionalProperties === false ? members : value
  return Object.fromEntries(Object.entries(kept).map(([name, member]) => [name, withoutBound(member)]))
}

type Schemas = typeof namedSchemas & typeof coordinationSchemas

/** Refers to a named schema, so that the document has it once. */
export const ref = <N extends keyof Schemas>(name: N) => Type.Unsafe<Static<Schemas[N]>>({ $ref: `${name}#` })
