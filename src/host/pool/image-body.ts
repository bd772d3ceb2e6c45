/** The bytes of an image as they come, from wherever. */
export type ImageBody = {
  /** As the source tells it beforehand; undefined where it does not. */
  readonly bytes: number | undefined
  /** Each is good until the next is asked for. */
  readonly chunks: AsyncIterable<Uint8Array>
  /** Lets go of the source, wherever the reading stands. */
  close(): Promise<void> | void
}
