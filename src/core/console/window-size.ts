/** Of a terminal, in characters (struct winsize, ioctl_tty(2)). */
export type WindowSize = { readonly cols: number; readonly rows: number }

/** What terminals have when nobody says otherwise. */
export const DEFAULT_WINDOW: WindowSize = { cols: 80, rows: 24 }
