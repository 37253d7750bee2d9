from tests.support.state_fixtures import made as made
from tests.support.state_fixtures import make_state as make_state
from tests.support.timers import make_timed as make_timed
