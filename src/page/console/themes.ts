import type { ITheme } from '@xterm/xterm'

const dark: ITheme = {
  background: '#14161a',
  foreground: '#e6e9ed',
  cursor: '#e6e9ed',
  cursorAccent: '#14161a',
  selectionBackground: '#3b5b8c',
}

const light: ITheme = {
  background: '#ffffff',
  foreground: '#1b1f24',
  cursor: '#1b1f24',
  cursorAccent: '#ffffff',
  selectionBackground: '#b6d3ff',
  black: '#1b1f24',
  red: '#c11525',
  green: '#1a7f37',
  yellow: '#8a5d00',
  blue: '#0a58ca',
  magenta: '#8431b8',
  cyan: '#0b7285',
  white: '#c9ced6',
  brightBlack: '#5c6570',
  brightRed: '#a30d1b',
  brightGreen: '#116329',
  brightYellow: '#6f4b00',
  brightBlue: '#0842a0',
  brightMagenta: '#6b1fa0',
  brightCyan: '#095c6b',
  brightWhite: '#ffffff',
}

/** Returns the terminal's colours, which match those of console.css. */
export const themeFor = (isDark: boolean): ITheme => (isDark ? dark : light)
