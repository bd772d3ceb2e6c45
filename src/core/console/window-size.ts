/** The size of a terminal, in characters (struct winsize, ioctl_tty(2)). */
export type WindowSize = { readonly cols: number; readonly rows: number }

/** The usual size of terminals if none is given. */
export const DEFAULT_WINDOW: WindowSize = { cols: 80, rows: 24 }
