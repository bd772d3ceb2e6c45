/** The CRC-32 of Node's own zlib, on another thread; node:zlib computes it on the thread that asks. */
import { callInThread, thisProgram } from './koffi.ts'

/** Node exports zlib for addons (Node.js documentation, "Linking to libraries included with Node.js"). */
const crc32 = thisProgram().func(
  'unsigned long crc32(unsigned long crc, const uint8_t *bytes, unsigned int length)',
)

/** Returns the CRC-32 of bytes, as in gzip and PNG (RFC 1952, section 8). The bytes must stay as they are until then. */
export const crc32InThread = (bytes: Uint8Array): Promise<number> =>
  callInThread(crc32, 0, bytes, bytes.length)
