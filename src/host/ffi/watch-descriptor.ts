import { ErrnoError } from './errno-error.ts'
import { koffi } from './koffi.ts'

/** uv.h; both are part of libuv's stable ABI. */
const UV_POLL = 8
const UV_READABLE = 1

/** The event loop of Node's main thread. The executable exports its functions for native addons (docs.libuv.org). */
const node = koffi.load(null)
const OnPoll = koffi.pointer(koffi.proto('void OnPoll(void *handle, int status, int events)'))
const OnClose = koffi.pointer(koffi.proto('void OnClose(void *handle)'))
const defaultLoop = node.func('void *uv_default_loop()')
const handleBytes = node.func('size_t uv_handle_size(int type)')
const pollInit = node.func('int uv_poll_init(void *loop, void *handle, int fd)')
const pollStart = node.func('uv_poll_start', 'int', ['void *', 'int', OnPoll])
const unreference = node.func('void uv_unref(void *handle)')
const closeHandle = node.func('uv_close', 'void', ['void *', OnClose])

/**
 * Calls `onReadable`, in a turn of the event loop, whenever a descriptor is readable (uv_poll_t of libuv). It is for
 * descriptors that poll(2) supports and Node cannot read. It takes no thread, polls nothing, and does not keep the
 * process alive. Only the main thread may call it.
 *
 * Returns a function that ends the watch, to be called before the descriptor is closed. Throws ErrnoError.
 */
export function watchDescriptor(fd: number, onReadable: () => void): () => void {
  const handle: unknown = koffi.alloc('uint8_t', Number(handleBytes(UV_POLL)))
  const status = pollInit(defaultLoop(), handle, fd) as number
  if (status < 0) {
    koffi.free(handle)
    throw new ErrnoError(`watch descriptor ${fd}`, -status)
  }
  let watching = true
  // libuv calls this outside of any turn that Node knows of, so promises would not continue after it.
  const call = koffi.register(() => {
    setImmediate(() => {
      if (watching) onReadable()
    })
  }, OnPoll)
  const end = (): void => {
    if (!watching) return
    watching = false
    const closed = koffi.register(() => {
      setImmediate(() => {
        koffi.free(handle)
        koffi.unregister(call)
        koffi.unregister(closed)
      })
    }, OnClose)
    closeHandle(handle, closed)
  }
  const started = pollStart(handle, UV_READABLE, call) as number
  if (started < 0) {
    end()
    throw new ErrnoError(`watch descriptor ${fd}`, -started)
  }
  unreference(handle)
  return end
}
