import type { ConsoleSocket } from './console-socket.ts'

/** The console that a request will get, decided before the upgrade. */
export type OpenedConsole = {
  /** Called after the upgrade: connects what was opened to the viewer. */
  readonly begin: (viewer: ConsoleSocket) => void
  /** Called when the connection is gone, whether or not `begin` was called. */
  readonly abandon: () => void
}
