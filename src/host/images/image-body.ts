/** The bytes of an image as they arrive from any source. */
export type ImageBody = {
  /** Yields chunks, each valid until the next one is requested. Throws HostFault, and {@link BeginsAnew}. */
  chunks(): AsyncIterableIterator<Uint8Array>
  /** Releases the source, even in the middle of reading. */
  close(): Promise<void> | void
}

/** Thrown when the bytes received so far are useless. The body's next `chunks()` starts at the first byte again. */
export class BeginsAnew extends Error {}
