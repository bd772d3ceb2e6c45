import type { CommandContext } from '../../commands/context.ts'
import type { Log } from '../../log/log.ts'

/** What is embedded in the executable and served, or read beside the sources when run from them. */
export type PageAsset = 'scalar.js' | 'errors.md'

/** What the controller API needs of the rest of the daemon. */
export type ControllerRooms = {
  /** Undefined until the store is open; until then routes that need it answer 503 `starting_up`. */
  readonly context: () => CommandContext | undefined
  /** What the daemon still waits for before it is ready, in words ("console adoption"); empty when it is. */
  readonly waitingFor: () => readonly string[]
  readonly readAsset: (name: PageAsset) => Uint8Array
  /** Of this build, for the OpenAPI document. */
  readonly version: string
  readonly log: Log
}
