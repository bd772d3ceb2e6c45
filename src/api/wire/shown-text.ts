import { withoutHostPaths, scrub } from '../../log/scrub.ts'

/**
 * Prepares one line of text for the controller. Messages quote programs, servers and the kernel, so secrets and paths
 * of the host are taken out. `kept` are the JSON pointers that the text is about.
 */
export const shownText = (text: string, kept: readonly string[] = []): string =>
  // Scrubbing comes first: it takes out invisible characters, which could split a path.
  withoutHostPaths(scrub(text), kept)
