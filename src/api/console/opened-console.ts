import type { ConsoleSocket } from './console-socket.ts'

/** What a request for a console will become, decided before the upgrade. */
export type OpenedConsole = {
  /** After the upgrade: ties what was opened to the viewer. */
  readonly begin: (viewer: ConsoleSocket) => void
  /** The connection is gone, whether or not `begin` ever came. */
  readonly abandon: () => void
}
