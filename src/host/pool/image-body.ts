/** The bytes of an image as they come, from wherever. */
export type ImageBody = {
  /** Each is good until the next is asked for. Throws HostFault, and {@link BeginsAnew}. */
  chunks(): AsyncIterableIterator<Uint8Array>
  /** Lets go of the source, wherever the reading stands. */
  close(): Promise<void> | void
}

/** What came until now is worth nothing; the body's next `chunks()` begin at its start. */
export class BeginsAnew extends Error {}
