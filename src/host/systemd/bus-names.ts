/** Names and object paths of systemd on D-Bus (org.freedesktop.systemd1(5)). */
export const SYSTEMD = 'org.freedesktop.systemd1'
export const MANAGER_PATH = '/org/freedesktop/systemd1'
export const MANAGER = `${SYSTEMD}.Manager`
export const UNIT = `${SYSTEMD}.Unit`
export const SERVICE = `${SYSTEMD}.Service`
export const PROPERTIES = 'org.freedesktop.DBus.Properties'
/** The member of a signal of {@link PROPERTIES}. */
export const PROPERTIES_CHANGED = 'PropertiesChanged'
/** The error for a unit that is not loaded. */
export const NO_SUCH_UNIT = `${SYSTEMD}.NoSuchUnit`
/** The beginning of the path of each unit. */
export const UNIT_PATH_PREFIX = `${MANAGER_PATH}/unit/`

/**
 * Returns the object path of a unit that is or may be loaded. Each byte except letters and digits, and a leading digit,
 * is written as `_` and two hexadecimal digits (sd_bus_path_encode(3)).
 */
export function unitPath(name: string): string {
  const label = name.replace(
    /[^A-Za-z0-9]|^[0-9]/g,
    (byte) => `_${byte.charCodeAt(0).toString(16).padStart(2, '0')}`,
  )
  return UNIT_PATH_PREFIX + label
}

/** Returns the name of a unit from its object path; undefined for any other object. */
export function unitOfPath(path: string): string | undefined {
  if (!path.startsWith(UNIT_PATH_PREFIX)) return undefined
  return path
    .slice(UNIT_PATH_PREFIX.length)
    .replace(/_([0-9a-f]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)))
}
