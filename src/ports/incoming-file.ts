import type { Frame } from '../core/migration/frames.ts'

/**
 * An unfinished file that comes from another host and is open: a disk, or the memory of a saved guest. It takes one
 * call at a time. After a call failed, all others fail too: close it, open it again, and take the stream from its
 * beginning. Throws HostFault.
 */
export interface IncomingFile {
  /**
   * Writes the bytes of a frame, or makes a hole. The same frame again has no further effect. A frame that goes beyond
   * the file's length is a bug of the caller, and is not written.
   */
  write(frame: Frame): Promise<void>
  /** Resolves when everything that was written is on the disk. */
  flush(): Promise<void>
  close(): Promise<void>
}
