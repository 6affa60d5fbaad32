ZDOTDIR=$COURSE_ZDOTDIR
if [[ -r $ZDOTDIR/.zprofile ]]; then . "$ZDOTDIR/.zprofile"; fi
ZDOTDIR=$course_profile
