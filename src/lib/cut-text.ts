/** Returns a text of at most this many characters; the last one is a sign if some are missing. */
export const cutText = (text: string, charactersMax: number): string =>
  text.length <= charactersMax ? text : `${text.slice(0, charactersMax - 1)}…`
